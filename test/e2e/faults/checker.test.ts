import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { cpSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { COMMAND_LINE } from "../../../src/kernel/author.ts";
import { startReceiver } from "../../features/webhooks/receiver.ts";
import { realServer } from "../../harness/real-server.ts";
import { brokenPromises, type Histories } from "./checker.ts";

/** A checker that finds nothing is worth nothing: each promise is broken once, and it has to say which. */
const work = mkdtempSync(join(tmpdir(), "stoa-checker-"));
let kept = "";
let histories: Histories;
let secret = "";

beforeAll(async () => {
  const server = await realServer();
  const receiver = startReceiver();
  const { call, projectId, runtime, services } = server;
  const hook = { url: receiver.url, environment: "DEVELOPMENT" as const };
  secret = (await runtime.write((unit) => services.webhooks.create(unit, projectId, hook, COMMAND_LINE))).secret;

  await call("POST", "/v1/chat/conversations", { name: "common" });
  const say = async (n: number) => {
    const message = { text: `says ${n}`, senderId: "ada", clientMessageId: `m${n}` };
    const { body } = await call("POST", "/v1/chat/conversations/common/messages", message);
    return { ...message, sender: "ada", messageId: String(body.id), seq: Number(body.seq) };
  };
  const sent = [await say(0), await say(1), await say(2)];
  const roomId = await server.room("lobby");
  const { tokenId } = await server.mint(roomId, "ada");
  // One event for the conversation, one for each message.
  await receiver.arrived(4);
  histories = {
    chat: [{ name: "ada", firstSeq: 0, sent, seen: sent.map(({ seq }) => ({ seq, type: "message" })) }],
    rest: [
      {
        sent: [],
        rooms: [{ id: roomId, name: "lobby" }],
        closedRooms: [],
        rtcTokens: [tokenId],
        conversations: [],
        streams: [],
      },
    ],
    received: receiver.received,
  };
  await server.stop("test", 2_000);
  receiver.close();
  kept = join(work, "kept");
  cpSync(runtime.config.DATA_DIR, kept, { recursive: true });
  await server.close();
}, 60_000);
afterAll(() => rmSync(work, { recursive: true, force: true }));

/** The faults that are found after `sql` has changed the database, and `told` what clients saw. */
function found(sql: string[] = [], told: (histories: Histories) => void = () => {}): string[] {
  const dataDir = mkdtempSync(join(work, "broken-"));
  cpSync(kept, dataDir, { recursive: true });
  const db = new Database(join(dataDir, "stoa.db"));
  for (const statement of sql) db.run(statement);
  db.close();
  const copy: Histories = {
    ...structuredClone({ chat: histories.chat, rest: histories.rest }),
    received: histories.received.map(({ headers, body }) => ({ headers: new Headers(headers), body })),
  };
  told(copy);
  return brokenPromises(dataDir, copy, secret);
}

test("the test's checker accepts a correct history", () => expect(found()).toEqual([]));

const OF_COMMON = "conversation_id = (SELECT id FROM conversations WHERE name = 'common')";

test.each([
  ["a lost message", ["DELETE FROM messages WHERE client_message_id = 'm1'"], "lost: m1"],
  ["a changed one", ["UPDATE messages SET text = 'other' WHERE client_message_id = 'm1'"], "changed: m1"],
  ["a gap", [`DELETE FROM conversation_events WHERE seq = 2 AND ${OF_COMMON}`], "a gap in the events of common"],
  ["an event of another kind", ["UPDATE conversation_events SET type = 'message.updated' WHERE seq = 2"], "ada saw"],
  ["a lost room", ["UPDATE rooms SET name = 'other'"], "lost: lobby of rooms"],
  [
    "a room made twice",
    [
      "INSERT INTO rooms (id, project_id, environment, name, status, created_at, updated_at) SELECT 'again', project_id, environment, name, 'CLOSED', created_at, updated_at FROM rooms",
    ],
    "twice: lobby of rooms",
  ],
  ["a lost token", ["DELETE FROM rtc_tokens"], "lost: RTC token"],
  [
    "an event that is not there",
    ["PRAGMA foreign_keys = OFF", "DELETE FROM webhook_events WHERE type = 'message.created'"],
    "no event for msg_",
  ],
  ["a delivery given up", ["UPDATE webhook_deliveries SET status = 'FAILED'"], "was given up"],
])("%s is found", (_, sql, said) => expect(found(sql).join("\n")).toContain(said));

test("a difference between the database and what clients saw or received is found", () => {
  const swapped = found([], ({ chat: [ada] }) => void ada?.sent.reverse());
  expect(swapped.join("\n")).toContain("out of order");
  const blind = found([], ({ chat: [ada] }) => void ada?.seen.pop());
  expect(blind.join("\n")).toContain("ada saw undefined where the log has");
  const fewer = found([], (told) => void Object.assign(told, { received: told.received.slice(1) }));
  expect(fewer.join("\n")).toContain("never arrived");
  const forged = found([], ({ received: [one] }) => one?.headers.set("svc-signature", "t=1,v1=00"));
  expect(forged.join("\n")).toContain("not signed");
  const other = found([], ({ received: [one] }) => void Object.assign(one ?? {}, { body: "{}" }));
  expect(other.join("\n")).toContain("arrived with other bytes");
});
