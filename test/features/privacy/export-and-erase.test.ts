import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { createPrivacy } from "../../../src/features/privacy/privacy.ts";
import { COMMAND_LINE } from "../../../src/kernel/author.ts";
import type { PersonalData, User } from "../../../src/kernel/personal-data.ts";
import { makeBackup } from "../../../src/ops/backup/make-backup.ts";
import { createApi } from "../../harness/api.ts";
import { type RealServer, realServer } from "../../harness/real-server.ts";
import { startReceiver } from "../webhooks/receiver.ts";

const ZOE = "zoe.erasable@example";
const WORD = "heliotrope";
const OTHERS = 400;

type Answer = { id: string; [field: string]: unknown };
type Overview = { counts: Record<string, number>; total: number; erasure: { status: string } | null };

let server: RealServer;
let room: Answer;
let theirs: Answer[];
const receiver = startReceiver();

async function ask<Body = Answer>(method: string, path: string, body?: object): Promise<Body> {
  const reply = await server.call(method, path, body);
  if (reply.status > 299) throw new Error(`${method} ${path}: ${reply.status} ${reply.text}`);
  return reply.body as Body;
}
const post = (path: string, body: object = {}) => ask("POST", path, body);
const overview = () => ask<Overview>("GET", `/v1/people/${ZOE}`);

/** A user who did a bit of everything, among others. */
beforeAll(async () => {
  server = await realServer({ WEBHOOK_ALLOW_PRIVATE: true, CHAT_SEND_RATE_LIMIT: 100_000 } as never);
  await server.runtime.write((unit) =>
    server.services.webhooks.create(
      unit,
      server.projectId,
      { url: receiver.url, environment: "DEVELOPMENT" },
      { actor: null, request: null, environment: "DEVELOPMENT" },
    ),
  );
  const members = [{ userId: ZOE, name: `${WORD} Z.`, metadata: { nick: WORD } }, { userId: "bob" }];
  room = await post("/v1/chat/conversations", { name: "hall", members });
  const at = `/v1/chat/conversations/${room.id}`;
  theirs = [];
  for (let n = 0; n < OTHERS; n++) {
    const sent = await post(`${at}/messages`, {
      senderId: n % 5 === 0 ? ZOE : "bob",
      text: n % 5 === 0 ? `${WORD} number ${n} ${"x".repeat(n % 97)}` : `plain ${n} ${"y".repeat(n % 201)}`,
      clientMessageId: `m${n}`,
    });
    if (n % 5 === 0) theirs.push(sent);
    else if (n % 50 === 1) await post(`/v1/chat/messages/${sent.id}/reactions`, { emoji: "🌻", userId: ZOE });
  }
  await ask("PATCH", `/v1/chat/messages/${theirs[0]?.id}`, { text: `${WORD} edited` });
  await post(`/v1/chat/messages/${theirs.at(-1)?.id}/read`, { userId: ZOE });
  const file = new TextEncoder().encode(`bytes of ${WORD}`);
  const attachment = await post(`${at}/attachments`, {
    filename: `${WORD}.txt`,
    mimeType: "text/plain",
    size: file.length,
    uploaderId: ZOE,
  });
  const upload = await fetch(String(attachment.uploadUrl), {
    method: "PUT",
    body: file,
    headers: { "content-type": "text/plain" },
  });
  expect(upload.status).toBe(200);
  await post(`/v1/chat/attachments/${attachment.id}/complete`);
  // Sent by the server, not by them: the message stays, and the file goes.
  await post(`${at}/messages`, { attachmentId: attachment.id, text: "from the desk" });
  await post("/v1/live-streams", { title: "show", hostIdentity: ZOE });
  const media = await post("/v1/rooms", { name: "studio" });
  await post(`/v1/rooms/${media.id}/rtc-tokens`, { participantIdentity: ZOE });
  await server.services.search.catchUp();
}, 60_000);

afterAll(async () => {
  receiver.close();
  await server.close();
});

/** Every file of the data directory that holds the text, the write-ahead log included. */
function filesWith(text: string, folder = server.runtime.config.DATA_DIR): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = join(folder, entry.name);
    if (entry.isDirectory()) return filesWith(text, path);
    return readFileSync(path).includes(text) ? [path] : [];
  });
}

test("[19] an unknown user has zeros, not an error", async () => {
  const { status, body } = await server.call("GET", "/v1/people/nobody");
  expect(status).toBe(200);
  expect(body).toMatchObject({ userId: "nobody", total: 0, erasure: null });
  // LiveKit's clients have such identities.
  expect((await server.call("GET", "/v1/people/no%20body")).body).toMatchObject({ userId: "no body", total: 0 });
  expect((await server.call("GET", "/v1/people/%20nobody")).status).toBe(400);
  expect((await server.call("GET", "/v1/people/nobody/exports/none")).status).toBe(404);
});

test("[19] the overview counts what is held, by kind", async () => {
  const { counts } = await overview();
  expect(counts).toMatchObject({
    messages: OTHERS / 5,
    // The stream's conversation is the second.
    memberships: 2,
    reactions: 8,
    readStates: 1,
    attachments: 1,
    liveStreams: 1,
  });
  expect(counts.tokens).toBeGreaterThan(0);
});

test("[19] an export is one archive of everything, which any tar program reads", async () => {
  const { id, status, url } = await post(`/v1/people/${ZOE}/exports`);
  expect({ status, url }).toEqual({ status: "RUNNING", url: undefined });
  await server.services.privacy.exports.settled();
  const ready = await ask<Answer>("GET", `/v1/people/${ZOE}/exports/${id}`);
  expect(ready.status).toBe("READY");
  expect((await server.call("GET", `/v1/people/bob/exports/${id}`)).status).toBe(404);

  const folder = join(server.runtime.config.DATA_DIR, "unpacked");
  const answer = await fetch(String(ready.url));
  expect(answer.headers.get("content-type")).toContain("application/x-tar");
  const tar = join(folder, "..", "taken.tar");
  await Bun.write(tar, await answer.arrayBuffer());
  await Bun.$`mkdir ${folder} && tar -xf ${tar} -C ${folder} && cd ${folder} && sha256sum --quiet --check checksums.txt`;
  const lines = (kind: string) =>
    readFileSync(join(folder, `${kind}.jsonl`), "utf8")
      .split("\n")
      .filter((line) => line !== "")
      .map((line) => JSON.parse(line));
  expect(lines("messages").map(({ id }) => id)).toEqual(theirs.map(({ id }) => id));
  expect(lines("messages").every(({ senderId }) => senderId === ZOE)).toBe(true);
  expect(lines("memberships")).toMatchObject([{ userId: ZOE, metadata: { nick: WORD } }, { userId: ZOE }]);
  expect(lines("reactions").length).toBe(8);
  const [attachment] = lines("attachments");
  expect(readFileSync(join(folder, "attachments", attachment.id), "utf8")).toBe(`bytes of ${WORD}`);

  const forged = String(ready.url).replace(/signature=.*/, "signature=00");
  expect((await fetch(forged)).status).toBe(403);
  await Bun.$`rm -rf ${folder} ${tar}`;
});

test("[19] an erasure leaves tombstones without a gap, and nothing else, not even in the bytes of the files", async () => {
  const chat = await post("/v1/chat/tokens", { userId: ZOE });
  const socket = new WebSocket(`${chat.endpoint}?token=${chat.token}`);
  await new Promise((opened) => socket.addEventListener("message", opened, { once: true }));
  const closed = new Promise<number>((done) => socket.addEventListener("close", ({ code }) => done(code)));
  const before = await ask<Answer>("GET", `/v1/chat/conversations/${room.id}`);
  expect(filesWith(ZOE).length).toBeGreaterThan(0);
  expect(filesWith(WORD).length).toBeGreaterThan(0);

  const first = await server.call("DELETE", `/v1/people/${ZOE}`);
  expect(first).toMatchObject({ status: 202, body: { status: "RUNNING" } });
  // A repeated request during an erasure returns the same erasure.
  expect((await server.call("DELETE", `/v1/people/${ZOE}`)).body.id).toBe(first.body.id);
  expect(await closed).toBe(4401);
  await server.services.privacy.erasures.settled();

  const { total, erasure } = await overview();
  expect({ total, erasure: erasure?.status }).toEqual({ total: 0, erasure: "DONE" });
  expect((await server.call("GET", "/v1/people/bob")).body.counts).toMatchObject({ messages: OTHERS - OTHERS / 5 });

  const history = await ask<{ data: Answer[] }>(
    "GET",
    `/v1/chat/conversations/${room.id}/messages?includeDeleted=true&limit=100`,
  );
  const stones = history.data.filter(({ deleted }) => deleted);
  expect(stones.length).toBeGreaterThan(10);
  for (const stone of stones) expect(stone).toMatchObject({ text: null, senderId: null, attachment: null });
  expect(history.data.find(({ text }) => text === "from the desk")).toMatchObject({ attachment: null });

  let after = 0;
  const events: Answer[] = [];
  for (;;) {
    const page = await ask<{ data: Answer[]; hasMore: boolean }>(
      "GET",
      `/v1/chat/conversations/${room.id}/events?after=${after}&limit=200`,
    );
    events.push(...page.data);
    after = Number(page.data.at(-1)?.seq);
    if (!page.hasMore) break;
  }
  expect(events.map(({ seq }) => seq)).toEqual(events.map((_, index) => index + 1));
  expect(events.length).toBeGreaterThan(Number(before.lastSeq));
  expect(events.filter(({ deletedBy }) => deletedBy === "erasure").length).toBeGreaterThanOrEqual(OTHERS / 5);
  expect(JSON.stringify(events)).not.toContain(ZOE);
  expect((await server.call("GET", `/v1/chat/conversations/${room.id}/search?q=${WORD}`)).text).toBe("[]");

  expect(filesWith(ZOE)).toEqual([]);
  expect(filesWith(WORD)).toEqual([]);
  expect(existsSync(join(server.runtime.config.DATA_DIR, "exports"))).toBe(true);
  expect(readdirSync(join(server.runtime.config.DATA_DIR, "exports"))).toEqual([]);
  const backup = join(server.runtime.config.DATA_DIR, "after.tar");
  await makeBackup({ dataDir: server.runtime.config.DATA_DIR, file: backup, now: Date.now(), version: "test" });
  expect(readFileSync(backup).includes(ZOE)).toBe(false);
  expect(readFileSync(backup).includes(WORD)).toBe(false);

  const audit = server.runtime.db.$client.query("SELECT action, resource_id, metadata FROM audit_entries").all();
  expect(JSON.stringify(audit)).toContain("person.erased");
  expect(JSON.stringify(audit)).not.toContain(ZOE);
}, 60_000);

test("[19] a user of the same id in another environment is another user", async () => {
  const { key } = await server.runtime.write((unit) =>
    server.services.apiKeys.create(unit, server.projectId, { name: "live", environment: "PRODUCTION" }),
  );
  const live = createApi(server.url, key);
  const { body: other } = await live.call("POST", "/v1/chat/conversations", { name: "hall" });
  await live.call("POST", `/v1/chat/conversations/${other.id}/messages`, { senderId: ZOE, text: "mine" });
  expect((await overview()).total).toBe(0);
  await server.call("DELETE", `/v1/people/${ZOE}`);
  await server.services.privacy.erasures.settled();
  expect((await live.call("GET", `/v1/people/${ZOE}`)).body).toMatchObject({ counts: { messages: 1 }, erasure: null });
});

test("[19] an erased user who returns is a new user, and can be erased again", async () => {
  await post(`/v1/chat/conversations/${room.id}/messages`, { senderId: ZOE, text: "I am back" });
  expect((await overview()).counts.messages).toBe(1);
  await server.call("DELETE", `/v1/people/${ZOE}`);
  await server.services.privacy.erasures.settled();
  expect((await overview()).total).toBe(0);
});

test("[19] an export that is requested during an erasure does not outlast it", async () => {
  const { projectId } = server;
  const user: User = { projectId, environment: "DEVELOPMENT", userId: "yan" };
  const feature: PersonalData = {
    kinds: {
      async *messages() {
        yield [{ text: WORD }];
      },
    },
    erase: async () => void (await privacy.exports.request(user, COMMAND_LINE)),
  };
  const deps = { features: [feature], compactSearch: async () => {}, quota: { requireFree() {} } };
  const privacy = createPrivacy(server.runtime, deps);
  await privacy.erasures.request(user, COMMAND_LINE);
  await privacy.erasures.settled();
  await privacy.exports.settled();
  expect(privacy.exports.of(user)).toEqual([]);
  const folder = join(server.runtime.config.DATA_DIR, "exports");
  expect(existsSync(folder) ? readdirSync(folder) : []).toEqual([]);
});
