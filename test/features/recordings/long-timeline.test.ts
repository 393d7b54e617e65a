import { afterAll, expect, test } from "bun:test";
import { rtcServer } from "../../harness/rtc.ts";

const server = await rtcServer();
afterAll(server.close);
const { key } = server;
const call = (method: string, path: string, body?: object) => server.call(method, path, { key, body });

type Entry = { atMs: number; type: string; messageId?: string; text?: string };

/** Every page, as long as `link` leads on. */
async function pages(path: string, of: (body: unknown) => Entry[]): Promise<{ entries: Entry[]; bytes: number }[]> {
  const found = [];
  for (let next: string | undefined = path; next !== undefined; ) {
    const reply = await call("GET", next);
    expect(reply.status).toBe(200);
    found.push({ entries: of(JSON.parse(reply.text)), bytes: Buffer.byteLength(reply.text) });
    next = /<([^>]+)>; rel="next"/.exec(reply.headers.get("link") ?? "")?.[1];
  }
  return found;
}

const EVENTS = 2_500;
const MESSAGES = 300;
const roomId = await server.room("long");
const { body: conversation } = await call("POST", "/v1/chat/conversations", { name: "beside", roomId });
const { body: recording } = await call("POST", `/v1/rooms/${roomId}/recordings`, {});
const path = `/v1/recordings/${recording.id}`;
const client = server.runtime.db.$client;
const { id } = client
  .query<{ id: string }, [string]>("SELECT id FROM recordings WHERE public_id = ?")
  .get(String(recording.id)) ?? { id: "" };
await server.runtime.write(() => {
  const insert = client.prepare("INSERT INTO recording_events VALUES (?, ?, ?, 'speakers.changed', NULL, ?)");
  // The timeline of a call with endless changes of speakers, and messages between them.
  for (let seq = 0; seq < EVENTS; seq++) insert.run(id, seq, seq * 100, '{"speakers":[]}');
});
for (let n = 0; n < MESSAGES; n++) {
  server.clock.advance(Math.floor((EVENTS * 100) / MESSAGES));
  await call("POST", `/v1/chat/conversations/${conversation.id}/messages`, { text: "界".repeat(4_000) });
}
const list = (body: unknown) => body as Entry[];

test("[18] a timeline is served in pages of at most 1,000 entries and 2 MiB, complete and in order", async () => {
  const found = await pages(`${path}/timeline`, list);
  expect(found.length).toBeGreaterThan(2);
  for (const { entries, bytes } of found) {
    expect(entries.length).toBeLessThanOrEqual(1_000);
    expect(bytes).toBeLessThanOrEqual(2 * 1024 * 1024 + 2);
  }
  const all = found.flatMap(({ entries }) => entries);
  expect(all.map(({ atMs }) => atMs)).toEqual(all.map(({ atMs }) => atMs).sort((a, b) => a - b));
  expect(all.filter(({ type }) => type === "speakers.changed")).toHaveLength(EVENTS);
  expect(new Set(all.flatMap(({ messageId }) => messageId ?? [])).size).toBe(MESSAGES);
  expect(all).toHaveLength(EVENTS + MESSAGES);
});

test("[18] a page can be shorter, and begins where the one before ended", async () => {
  const short = await pages(`${path}/timeline?limit=200`, list);
  const long = await pages(`${path}/timeline`, list);
  expect(short.slice(0, -1).map(({ entries }) => entries.length)).toEqual(short.slice(1).map(() => 200));
  expect(short.flatMap(({ entries }) => entries)).toEqual(long.flatMap(({ entries }) => entries));
});

test("[18] the default page size is also the highest limit", async () => {
  const { body } = await call("POST", `${path}/view-tokens`, {});
  const token = String(body.url).split("#token=")[1];
  for (const address of [`${path}/timeline`, `/v1/replays/${token}`]) {
    const unasked = await call("GET", address);
    const asked = await call("GET", `${address}?limit=1000`);
    expect(asked.status).toBe(200);
    expect(JSON.parse(asked.text).timeline ?? JSON.parse(asked.text)).toEqual(
      JSON.parse(unasked.text).timeline ?? JSON.parse(unasked.text),
    );
    const more = await call("GET", `${address}?limit=1001`);
    expect(more.status).toBe(400);
    expect(more.text).toContain("from 1 to 1000");
  }
});

test("[18] a replay link reads the timeline in pages", async () => {
  const { body } = await call("POST", `${path}/view-tokens`, {});
  const token = String(body.url).split("#token=")[1];
  const found = await pages(`/v1/replays/${token}`, (replay) => (replay as { timeline: Entry[] }).timeline);
  expect(found.length).toBeGreaterThan(2);
  const all = found.flatMap(({ entries }) => entries);
  expect(all).toHaveLength(EVENTS + MESSAGES);
  expect(all.filter(({ text }) => text !== undefined)).toHaveLength(MESSAGES);
});

test("[18] the timeline of a call limits the text of its messages", async () => {
  const tenant = { projectId: server.projectId, environment: "DEVELOPMENT" } as const;
  const said = server.services.chat.roomMessages(tenant, roomId, 0, server.clock.now());
  const characters = said.reduce((sum, { text }) => sum + (text?.length ?? 0), 0);
  expect(said.length).toBeLessThan(MESSAGES);
  expect(characters).toBeLessThan(2 * 1024 * 1024);
});
