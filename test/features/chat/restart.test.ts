import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chatRest, outcome } from "./rest.ts";
import { fakeNetwork } from "./socket/fake-socket.ts";
import { chatWorld } from "./world.ts";

const dataDir = mkdtempSync(join(tmpdir(), "stoa-restart-"));
afterAll(() => rmSync(dataDir, { recursive: true, force: true }));
const start = () => chatWorld({ DATA_DIR: dataDir }, { inMemory: false });

test("[chat] after a restart tokens stay valid, a resume continues, and open connections are recorded as ended", async () => {
  const before = await start();
  const room = await before.room("lasting", ["alice"]);
  const [revoked, kept] = [
    (await before.call("POST", "/v1/chat/tokens", before.key, { userId: "alice" })).body,
    await before.token("alice"),
  ];
  await before.call("DELETE", `/v1/chat/tokens/${revoked.tokenId}`);
  const client = await before.open(kept);
  const { epoch, seq } = await client.ask("room.join", { room });
  await before.call("POST", `/v1/chat/conversations/${room}/messages`, before.key, { text: "meanwhile" });
  await before.close();

  const after = await start();
  try {
    const read = (token: string) => after.call("GET", `/v1/chat/conversations/${room}`, token);
    expect(outcome(await read(revoked.token))).toBe("401 SVC_TOKEN_REVOKED");
    expect(outcome(await read(kept))).toBe("200");
    const again = await after.open(kept);
    const resumed = await again.ask("room.join", { room, since: seq, epoch });
    expect(resumed).toMatchObject({
      epoch,
      recovered: true,
      events: [{ type: "message", message: { text: "meanwhile" } }],
    });
    const viewer = await after.people.session({ projectId: before.projectId, role: "VIEWER" });
    const connections = `/v1/projects/${before.projectId}/chat/connections`;
    let { body } = await after.call("GET", connections, viewer.token);
    // Records of connections are written some at a time.
    while (body.length < 2) ({ body } = await after.call("GET", connections, viewer.token));
    expect(body.map(({ disconnectedAt }: { disconnectedAt: string | null }) => disconnectedAt === null)).toEqual([
      true,
      false,
    ]);
  } finally {
    await after.close();
  }
}, 30_000);

test("[chat] the job removes expired tokens at once and connections after 30 days, not sooner", async () => {
  const chat = await chatRest();
  try {
    const count = (table: string) =>
      chat.server.runtime.db.$client.query<{ n: number }, []>(`SELECT count(*) AS n FROM ${table}`).get()?.n;
    await chat.room("r", ["alice"]);
    await chat.token("alice", { ttlSeconds: 60 });
    const network = fakeNetwork(chat);
    const alice = await network.connect("alice", { ttlSeconds: 3600 });
    alice.events.closed(1000);
    await network.chatSockets.connections.flush();
    const prune = () => chat.server.services.chat.prune();
    await prune();
    expect([count("chat_tokens"), count("chat_connections")]).toEqual([2, 1]);
    chat.clock.advance(60_000);
    await prune();
    expect([count("chat_tokens"), count("chat_connections")]).toEqual([1, 1]);
    chat.clock.advance(30 * 24 * 3_600_000 - 60_001);
    await prune();
    expect([count("chat_tokens"), count("chat_connections")]).toEqual([0, 1]);
    chat.clock.advance(1);
    await prune();
    expect(count("chat_connections")).toBe(0);
  } finally {
    await chat.close();
  }
});
