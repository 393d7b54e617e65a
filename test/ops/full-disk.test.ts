import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { mountSmall } from "./machine.ts";
import { prepareData, type Served, served } from "./served.ts";

const disk = mkdtempSync(join(tmpdir(), "stoa-full-"));
const dataDir = join(disk, "data");
let unmount: () => Promise<void>;
let server: Served;

beforeAll(async () => {
  unmount = await mountSmall(disk, "24m");
  mkdirSync(dataDir);
  await prepareData(dataDir);
  server = await served(dataDir);
}, 60_000);

afterAll(async () => {
  await server.stop("SIGKILL");
  await unmount();
  rmSync(disk, { recursive: true, force: true });
});

test("[11] on a full disk, writes are refused, acknowledged data is kept, and writes succeed once there is space", async () => {
  const room = await server.conversation("full", "alice");
  const { client } = await server.member("alice", room);
  const filler = join(disk, "filler");
  const acknowledged: string[] = [];
  const send = async (text: string) => {
    const answer = await client.ask("message.send", { room, text, clientMessageId: text });
    if (answer.type === "ack") acknowledged.push(text);
    return answer;
  };
  expect((await send("before")).type).toBe("ack");
  try {
    writeFileSync(filler, Buffer.alloc(64_000_000));
  } catch {
    // The disk is full now, as intended.
  }
  let refused = await send("full 0");
  // The write-ahead log has room until its next page.
  for (let i = 1; refused.type === "ack" && i < 5_000; i++) refused = await send(`full ${i} ${"x".repeat(1000)}`);
  expect(refused).toMatchObject({ type: "error", code: "STORAGE_FULL" });
  expect(JSON.stringify(refused)).not.toContain("SQLITE");
  expect((await server.call("GET", "/healthz")).status).toBe(200);

  rmSync(filler);
  expect((await send("after")).type).toBe("ack");
  await server.stop("SIGKILL");
  server = await served(dataDir);
  const kept: (string | null)[] = [];
  for (let before = ""; ; ) {
    const token = (await server.call("POST", "/v1/chat/tokens", { userId: "alice" })).body.token;
    const path = `/v1/chat/conversations/${room}/messages?limit=100${before && `&before=${before}`}`;
    const { body } = await server.call("GET", path, undefined, token);
    kept.unshift(...body.data.map(({ text }: { text: string }) => text).reverse());
    if (body.data.length < 100) break;
    before = body.data.at(-1).id;
  }
  expect(kept).toEqual(acknowledged);
});
