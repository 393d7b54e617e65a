import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join as pathOf } from "node:path";
import { gunzipSync } from "node:zlib";
import { PERSONAL_DATA_KINDS } from "../../../src/kernel/personal-data.ts";
import { join, type Participant, tone } from "../../../src/rtc-client/participant/participant.ts";
import { personalColumns } from "../../../src/services.ts";
import { type RealServer, realServer } from "../../harness/real-server.ts";
import { newBrowser } from "../push/browser.ts";
import { startReceiver } from "../webhooks/receiver.ts";

const ZOE = "zoe.erasable@example";
const WORD = "heliotrope";
const NAME = "Zoe Tremaine";
const PERSONAL = personalColumns.flatMap(({ userIds, content }) => [...Object.keys(userIds), ...content]);
const MARKS = [ZOE, WORD, NAME];

/** Columns that no mark can be put in, or that the erasure itself writes. */
const UNMARKED = [
  "chat_connections.ip_address",
  "person_erasures.user_id",
  "rtc_connections.ip_address",
  "rtc_connections.user_agent",
  "rtc_errors.message",
  "attachments.metadata",
];

type Answer = { id: string; [field: string]: unknown };

let server: RealServer;
let zoe: Participant;
let bob: Participant;
let socket: WebSocket;
const receiver = startReceiver();

async function ask<Body = Answer>(method: string, path: string, body?: object): Promise<Body> {
  const reply = await server.call(method, path, body);
  if (reply.status > 299) throw new Error(`${method} ${path}: ${reply.status} ${reply.text}`);
  return reply.body as Body;
}
const post = (path: string, body: object = {}) => ask("POST", path, body);

/** With a key that the answer is kept by. */
async function postOnce(path: string, body: object): Promise<Answer> {
  const headers = {
    authorization: `Bearer ${server.key}`,
    "content-type": "application/json",
    "idempotency-key": crypto.randomUUID(),
  };
  const reply = await fetch(`${server.url}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
  return (await reply.json()) as Answer;
}

async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await holds())) await Bun.sleep(50);
}

/** A user who did everything that leaves a trace, and to whom others did it. */
beforeAll(async () => {
  server = await realServer({ WEBHOOK_ALLOW_PRIVATE: true, MEDIA_WORKERS: 1 });
  const author = { actor: null, request: null, environment: "DEVELOPMENT" } as const;
  const hook = { url: receiver.url, environment: "DEVELOPMENT" } as const;
  await server.runtime.write((unit) => server.services.webhooks.create(unit, server.projectId, hook, author));
  await inRoom(await talk());
}, 120_000);

afterAll(async () => {
  socket?.close();
  await zoe?.close();
  await bob?.close();
  receiver.close();
  await server?.close();
}, 60_000);

/** Chat: what they said and did, and what was said and done about them. Answers the room that it belongs to. */
async function talk(): Promise<string> {
  const media = await post("/v1/rooms", { name: "studio" });
  const members = [{ userId: ZOE, role: "MODERATOR", name: NAME, metadata: { nick: WORD } }, { userId: "bob" }];
  const room = await post("/v1/chat/conversations", { name: "hall", roomId: media.id, members });
  const at = `/v1/chat/conversations/${room.id}`;
  const own = await post(`${at}/messages`, {
    senderId: ZOE,
    text: `${WORD} and more`,
    metadata: { mood: WORD },
    clientMessageId: `${WORD}-1`,
  });
  const other = await post(`${at}/messages`, { senderId: "bob", text: `@${ZOE} are you there?` });
  await post(`${at}/messages`, { senderId: "bob", text: "yes", replyTo: own.id });
  await post(`/v1/chat/messages/${other.id}/reactions`, { emoji: "🌻", userId: ZOE });
  await post(`/v1/chat/messages/${other.id}/read`, { userId: ZOE });
  await post(`/v1/chat/messages/${other.id}/reports`, { reason: "spam", note: WORD, userId: ZOE });
  await post(`/v1/chat/messages/${own.id}/reports`, { reason: "abuse", userId: "bob" });
  const gone = await post(`${at}/messages`, { senderId: "bob", text: "to be deleted" });
  const chat = await post("/v1/chat/tokens", { userId: ZOE });
  await fetch(`${server.url}/v1/chat/messages/${gone.id}`, {
    method: "DELETE",
    headers: { authorization: `Bearer ${chat.token}` },
  });
  await ask("PUT", `/v1/chat/blocks/carl?userId=${ZOE}`);
  await ask("PUT", `/v1/chat/blocks/${ZOE}?userId=carl`);
  const { keys } = newBrowser();
  await post("/v1/chat/push/subscriptions", { endpoint: `http://127.0.0.1:9/${WORD}`, keys, userId: ZOE });
  await ask("PUT", `${at}/notifications`, { level: "mentions", userId: ZOE });
  const rung = await post(`${at}/rings`, { userId: ZOE, metadata: { about: WORD } });
  await post(`/v1/chat/rings/${rung.id}/decline`, { userId: "bob" });
  const ringing = await post(`${at}/rings`, { userId: "bob", userIds: [ZOE] });
  await post(`/v1/chat/rings/${ringing.id}/answer`, { userId: ZOE });
  await sendFile(at);
  const stream = await postOnce("/v1/live-streams", { title: "show", hostIdentity: ZOE });
  const watched = await post("/v1/live-streams", { title: "other show", hostIdentity: "bob" });
  await post(`/v1/live-streams/${watched.id}/viewer-tokens`, { identity: ZOE });
  await post(`/v1/live-streams/${stream.id}/hosts`, { identity: "carl" });
  socket = new WebSocket(`${chat.endpoint}?token=${chat.token}`, { headers: { "user-agent": WORD } } as never);
  await new Promise((opened) => socket.addEventListener("message", opened, { once: true }));
  return media.id;
}

async function sendFile(at: string): Promise<void> {
  const file = new TextEncoder().encode(`bytes of ${WORD}`);
  const described = { filename: `${WORD}.txt`, mimeType: "text/plain", size: file.length, uploaderId: ZOE };
  const attachment = await post(`${at}/attachments`, described);
  const headers = { "content-type": "text/plain" };
  await fetch(String(attachment.uploadUrl), { method: "PUT", body: file, headers });
  await post(`/v1/chat/attachments/${attachment.id}/complete`);
  await post(`${at}/messages`, { attachmentId: attachment.id, text: "from the desk" });
}

/** A call that is recorded, measured and read out, and that they are still in. */
async function inRoom(roomId: string): Promise<void> {
  const credentials = (identity: string, body: object = {}) =>
    post(`/v1/rooms/${roomId}/rtc-tokens`, {
      participantIdentity: identity,
      permissions: { publish: true, publishData: true },
      ...body,
    });
  const recording = await post(`/v1/rooms/${roomId}/recordings`);
  const one = await credentials(ZOE, { name: NAME, metadata: WORD, attributes: { team: WORD } });
  zoe = await join(String(one.endpoint), String(one.token), { name: WORD });
  const other = await credentials("bob");
  bob = await join(String(other.endpoint), String(other.token));
  const spoken = new Promise<void>((heard) => {
    bob.on("activeSpeakersChanged", ([first]) => first && heard());
  });
  await zoe.publishAudio(tone({ hz: 440 }), { sampleRate: 48_000, channels: 1 });
  await spoken;
  await ask("PATCH", `/v1/rooms/${roomId}/participants/${ZOE}`, { permissions: { publishVideo: true } });
  const connection = async () => {
    const list = (await ask("GET", `/v1/connections?roomId=${roomId}`)) as unknown as Answer[];
    return list.find(({ participantIdentity, state }) => participantIdentity === ZOE && state === "CONNECTED");
  };
  await until(async () => (await connection()) !== undefined);
  const found = await connection();
  await post(`/v1/connections/${found?.id}/dump`);
  await fetch(`${server.url}/v1/telemetry/events`, {
    method: "POST",
    headers: { authorization: `Bearer ${one.token}`, "content-type": "application/json" },
    body: JSON.stringify({
      connectionId: found?.connectionId,
      type: "error",
      data: { code: "NotReadableError", message: `the camera of ${WORD}` },
    }),
  });
  await until(() => tracksOf(recording.id).length > 0);
  await post(`/v1/recordings/${recording.id}/stop`);
  await server.services.rtcSessions.recorder.flush();
  await server.services.search.catchUp();
}

const tracksOf = (publicId: string) =>
  server.runtime.db.$client
    .query<{ file: string }, [string, string]>(
      `SELECT r.id || '/' || f.file_name AS file FROM recordings r JOIN recording_files f ON f.recording_id = r.id
       WHERE r.public_id = ? AND f.identity = ?`,
    )
    .all(publicId, ZOE)
    .map(({ file }) => pathOf(server.runtime.config.DATA_DIR, "recordings", file));

const tables = () =>
  server.runtime.db.$client
    .query<{ name: string }, []>(
      `SELECT name FROM pragma_table_list WHERE schema = 'main' AND type IN ('table', 'virtual')
       AND name NOT LIKE 'sqlite_%' AND name NOT LIKE 'message_search_%' ORDER BY name`,
    )
    .all()
    .map(({ name }) => name);

/** Every column in which a mark stands, whatever it is called. */
function marked(): string[] {
  const found = new Set<string>();
  for (const table of tables()) {
    for (const row of server.runtime.db.$client
      .query<Record<string, unknown>, []>(`SELECT * FROM "${table}"`)
      .iterate())
      for (const [column, value] of Object.entries(row))
        if (MARKS.some((mark) => textOf(value).includes(mark))) found.add(`${table}.${column}`);
  }
  return [...found].sort();
}

function textOf(value: unknown): string {
  if (!(value instanceof Uint8Array)) return String(value);
  const isPacked = value[0] === 0x1f && value[1] === 0x8b;
  return Buffer.from(isPacked ? gunzipSync(value) : value).toString("latin1");
}

function filesWithMarks(folder: string): string[] {
  return readdirSync(folder, { withFileTypes: true }).flatMap((entry) => {
    const path = pathOf(folder, entry.name);
    if (entry.isDirectory()) return filesWithMarks(path);
    const bytes = readFileSync(path);
    return MARKS.some((mark) => bytes.includes(mark)) ? [path] : [];
  });
}

test("[19] the export of a user who did everything has data of every kind", async () => {
  const { id } = await post(`/v1/people/${ZOE}/exports`);
  await server.services.privacy.exports.settled();
  const ready = await ask("GET", `/v1/people/${ZOE}/exports/${id}`);
  const folder = mkdtempSync(pathOf(tmpdir(), "stoa-export-"));
  const tar = pathOf(folder, "export.tar");
  writeFileSync(tar, new Uint8Array(await (await fetch(String(ready.url))).arrayBuffer()));
  await Bun.$`tar -xf ${tar} -C ${folder}`;
  const empty = PERSONAL_DATA_KINDS.filter((kind) => readFileSync(pathOf(folder, `${kind}.jsonl`)).length === 0);
  expect(empty).toEqual([]);
  expect(readdirSync(pathOf(folder, "recordings")).length).toBe(1);
  rmSync(folder, { recursive: true });
}, 60_000);

test("[19] a user who did everything is in every column of personal data, and in no other", () => {
  const found = marked();
  expect(PERSONAL.filter((column) => !UNMARKED.includes(column) && !found.includes(column))).toEqual([]);
  expect(found.filter((column) => !PERSONAL.includes(column))).toEqual([]);
});

test("[19] a user who is erased during a call is in no column, no file and no recording", async () => {
  const recordings = pathOf(server.runtime.config.DATA_DIR, "recordings");
  const before = readdirSync(recordings, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  expect(before.length).toBe(1);
  await ask("DELETE", `/v1/people/${ZOE}`);
  await server.services.privacy.erasures.settled();
  expect(marked()).toEqual([]);
  expect(filesWithMarks(server.runtime.config.DATA_DIR)).toEqual([]);
  for (const entry of before) expect(existsSync(pathOf(entry.parentPath, entry.name))).toBe(false);
  const { total } = await ask<{ total: number }>("GET", `/v1/people/${ZOE}`);
  expect(total).toBe(0);
  // The other one is still in the call, and in what was kept.
  expect((await ask<{ counts: Record<string, number> }>("GET", "/v1/people/bob")).counts).toMatchObject({
    messages: 3,
    calls: 1,
  });
}, 120_000);
