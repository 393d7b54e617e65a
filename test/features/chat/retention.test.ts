import { afterEach, expect, test } from "bun:test";
import type { Config } from "../../../src/kernel/config/index.ts";
import { type TestServer, testServer } from "../../harness/server.ts";
import { filesBelow } from "./attachments/attachment-world.ts";

const DAY_MS = 24 * 3_600_000;

let server: TestServer;
afterEach(() => server.close());

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into freely
type Any = any;

async function world(overrides: Partial<Config> = {}) {
  server = testServer({ CHAT_SEND_RATE_LIMIT: 1_000_000, ...overrides });
  const { runtime, services, clock } = server;
  const { key, projectId } = await server.project();
  const ask = (method: string, path: string, body?: unknown, as = key) =>
    server.call(method, path, { key: as, body }) as Promise<Any>;
  let rooms = 0;
  return {
    ask,
    key,
    projectId,
    clock,
    files: () => filesBelow(runtime.config.DATA_DIR),
    remove: services.retention.removeDue,
    count: (sql: string) => (runtime.db.$client.query(sql).get() as { n: number }).n,
    async room(retentionDays?: number) {
      rooms += 1;
      const input = { name: `room-${rooms}`, retentionDays, members: [{ userId: "alice" }] };
      const { body } = await ask("POST", "/v1/chat/conversations", input);
      const path = `/v1/chat/conversations/${body.id}`;
      return {
        path,
        send: async (text: string, more: object = {}) =>
          (await ask("POST", `${path}/messages`, { text, senderId: "bob", ...more })).body as Any,
        texts: async () =>
          (await ask("GET", `${path}/messages?includeDeleted=true`)).body.data.map(({ text }: Any) => text) as string[],
        show: async () => (await ask("GET", path)).body as Any,
        row: () =>
          runtime.db.$client
            .query(
              "SELECT last_seq, log_start_seq, last_ordinal, removed_ordinal, message_count, reaction_count FROM conversations WHERE public_id = ?",
            )
            .get(body.id) as Record<string, number>,
        async attach(text: string) {
          const input = { filename: "f.txt", mimeType: "text/plain", size: text.length };
          const upload = (await ask("POST", `${path}/attachments`, input)).body;
          const { pathname, search } = new URL(upload.uploadUrl);
          await server.call("PUT", pathname + search, { raw: text });
          await ask("POST", `/v1/chat/attachments/${upload.id}/complete`);
          return upload.id as string;
        },
      };
    },
  };
}

test("[2] retentionDays removes older messages and no newer ones", async () => {
  const { room, remove, clock, count, ask } = await world();
  const kept = await room();
  const week = await room(7);
  await kept.send("stays for ever");
  const old = await week.send("old");
  await ask("POST", `/v1/chat/messages/${old.id}/reactions`, { emoji: "👍", userId: "alice" });
  expect(week.row().reaction_count).toBe(1);
  clock.advance(DAY_MS);
  await week.send("younger");
  clock.advance(6 * DAY_MS);
  expect(await remove()).toBe(0);
  clock.advance(1);
  expect(await remove()).toBe(1);

  expect(await week.texts()).toEqual(["younger"]);
  expect(await kept.texts()).toEqual(["stays for ever"]);
  expect((await ask("GET", `/v1/chat/messages/${old.id}`)).status).toBe(404);
  expect((await ask("GET", `${week.path}/search?q=old`)).body).toEqual([]);
  expect(count("SELECT count(*) AS n FROM message_reactions")).toBe(0);
  expect(week.row().reaction_count).toBe(0);
  await server.services.search.catchUp();
  expect(count("SELECT count(*) AS n FROM message_search")).toBe(2);
});

test("[8] CHAT_RETENTION_DAYS applies to conversations without retentionDays, and 0 keeps everything", async () => {
  const { room, remove, clock } = await world({ CHAT_RETENTION_DAYS: 2 });
  const usual = await room();
  const longer = await room(30);
  for (const one of [usual, longer]) await one.send("hello");
  clock.advance(2 * DAY_MS + 1);
  expect(await remove()).toBe(1);
  expect(await usual.texts()).toEqual([]);
  expect(await longer.texts()).toEqual(["hello"]);
  await server.close();

  const keeping = await world();
  const forever = await keeping.room();
  await forever.send("hello");
  keeping.clock.advance(36_500 * DAY_MS);
  expect(await keeping.remove()).toBe(0);
  expect(await forever.texts()).toEqual(["hello"]);
});

test("[contract 8] seq continues after a removal, and a client that missed removed events learns it", async () => {
  const { room, remove, clock, ask } = await world();
  const week = await room(7);
  for (const text of ["1", "2", "3"]) await week.send(text);
  const { last_seq: before } = week.row();
  clock.advance(7 * DAY_MS + 1);
  expect(await remove()).toBe(3);
  const after = week.row();
  expect(after).toMatchObject({ last_seq: before, log_start_seq: before, removed_ordinal: 3, message_count: 0 });
  expect((await week.show()).lastSeq).toBe(before);

  const recovered = async (after: number) => (await ask("GET", `${week.path}/events?after=${after}`)).body.recovered;
  expect(await recovered(0)).toBe(false);
  expect(await recovered((before ?? 0) - 1)).toBe(false);
  expect(await recovered(before ?? 0)).toBe(true);

  const next = await week.send("4");
  expect(next.seq).toBe((before ?? 0) + 1);
  expect(week.row()).toMatchObject({ last_seq: next.seq, log_start_seq: before, last_ordinal: 4, message_count: 1 });
});

test("[contract 8] an edit of a removed message is replayed as a deletion without text", async () => {
  const { room, remove, clock, ask } = await world();
  const week = await room(7);
  const old = await week.send("first");
  clock.advance(6 * DAY_MS);
  await ask("PATCH", `/v1/chat/messages/${old.id}`, { text: "edited" });
  clock.advance(DAY_MS + 1);
  expect(await remove()).toBe(1);
  const { log_start_seq, last_seq } = week.row();
  expect(last_seq).toBe((log_start_seq ?? 0) + 1);
  const { body } = await ask("GET", `${week.path}/events?after=${log_start_seq}`);
  const { data: events } = body;
  expect(events).toMatchObject([{ type: "message.deleted", messageId: old.id, seq: last_seq }]);
  expect(JSON.stringify(events)).not.toContain("edited");
});

test("[2] tombstones of deleted messages are removed too, and counted once", async () => {
  const { room, remove, clock, ask } = await world();
  const week = await room(7);
  const first = await week.send("first");
  await week.send("second");
  await ask("DELETE", `/v1/chat/messages/${first.id}`);
  expect(week.row().message_count).toBe(1);
  clock.advance(7 * DAY_MS + 1);
  expect(await remove()).toBe(2);
  expect(week.row().message_count).toBe(0);
});

test("[contract 9] the files of expired messages are removed, except files that another message shows", async () => {
  const { room, remove, clock, files, ask } = await world();
  const week = await room(7);
  const alone = await week.attach("alone");
  const shared = await week.attach("shared");
  await week.send("a", { attachmentId: alone });
  await week.send("b", { attachmentId: shared });
  clock.advance(DAY_MS);
  await week.send("c", { attachmentId: shared });
  expect(files()).toHaveLength(2);
  clock.advance(6 * DAY_MS + 1);
  expect(await remove()).toBe(2);
  await server.services.attachments.removals.run();
  expect(files()).toHaveLength(1);
  expect((await ask("GET", `/v1/chat/attachments/${alone}`)).status).toBe(404);
  expect((await ask("GET", `/v1/chat/attachments/${shared}/download-url`)).status).toBe(200);

  clock.advance(DAY_MS);
  expect(await remove()).toBe(1);
  await server.services.attachments.removals.run();
  expect(files()).toEqual([]);
});

test("[8] a large purge takes several runs of small units, and sends are served between them", async () => {
  const { room, remove, clock, count, key } = await world();
  const week = await room(7);
  const busy = await room();
  const { runtime, services } = server;
  const caller = services.apiKeys.verify(key);
  const access = services.chat.access.conversation(caller, (await week.show()).id, "chat:send");
  const TOTAL = 10_120;
  for (let sent = 0; sent < TOTAL; sent += 460) {
    await runtime.write((unit) => {
      for (let i = 0; i < 460; i += 1) services.chat.messages.send(unit, access, { text: `message ${i}` });
    });
  }
  clock.advance(7 * DAY_MS + 1);

  let running = true;
  const first = remove().finally(() => {
    running = false;
  });
  const left: number[] = [];
  while (running) {
    await busy.send("through");
    left.push(count("SELECT count(*) AS n FROM messages"));
  }
  expect(await first).toBe(10_000);
  // Each send saw the purge a little further on: never did it wait for the whole.
  expect(left.length).toBeGreaterThan(20);
  expect(new Set(left).size).toBeGreaterThan(20);

  expect(await remove()).toBe(120);
  expect(await week.texts()).toEqual([]);
  expect(await remove()).toBe(0);
  expect(week.row()).toMatchObject({ removed_ordinal: TOTAL, message_count: 0 });
  await services.search.catchUp();
  expect(count("SELECT count(*) AS n FROM message_search")).toBe(count("SELECT count(*) AS n FROM messages"));
}, 60_000);

test("[2] a changed retention applies from the next run", async () => {
  const { room, remove, clock, ask } = await world();
  const one = await room();
  await one.send("hello");
  clock.advance(10 * DAY_MS);
  expect(await remove()).toBe(0);
  await ask("PATCH", one.path, { retentionDays: 5 });
  expect(await remove()).toBe(1);
  expect(await one.texts()).toEqual([]);
});

test("[4.3] unread counts leave removed messages out", async () => {
  const { room, remove, clock, ask } = await world();
  const week = await room(7);
  for (const text of ["1", "2", "3"]) await week.send(text);
  clock.advance(DAY_MS);
  const fourth = await week.send("4");
  await week.send("5");
  const unread = async () => (await ask("GET", `${week.path}/read-state?userId=alice`)).body.unreadCount;
  expect(await unread()).toBe(5);
  clock.advance(6 * DAY_MS + 1);
  expect(await remove()).toBe(3);
  expect(await unread()).toBe(2);
  await ask("POST", `/v1/chat/messages/${fourth.id}/read`, { userId: "alice" });
  expect(await unread()).toBe(1);
  clock.advance(DAY_MS);
  await remove();
  expect(await unread()).toBe(0);
});

test("[2] replies outlive the root of their thread, and pinned messages are removed like others", async () => {
  const { room, remove, clock, ask } = await world();
  const week = await room(7);
  const root = await week.send("root");
  await ask("PUT", `/v1/chat/messages/${root.id}/pin`);
  clock.advance(DAY_MS);
  const reply = await week.send("reply", { replyTo: root.id });
  clock.advance(6 * DAY_MS + 1);
  expect(await remove()).toBe(1);
  expect((await ask("GET", `/v1/chat/messages/${reply.id}`)).body).toMatchObject({ text: "reply", replyTo: root.id });
  expect(await week.texts()).toEqual(["reply"]);
  await ask("DELETE", `/v1/chat/messages/${reply.id}`);
  expect((await ask("GET", `/v1/chat/messages/${root.id}/thread`)).status).toBe(404);
});

test("[contract 13] queued webhooks lose the content of an expired message", async () => {
  const { room, remove, clock, ask, projectId } = await world();
  const { token } = await server.session({ projectId, role: "OWNER" });
  const hook = { url: "http://127.0.0.1:9/hook", environment: "DEVELOPMENT" };
  expect((await ask("POST", `/v1/projects/${projectId}/webhooks`, hook, token)).status).toBe(201);
  const day = await room(1);
  await day.send("confidential");
  const bodies = () =>
    JSON.stringify(
      server.runtime.db.$client.query("SELECT body FROM webhook_events WHERE type = 'message.created'").all(),
    );
  expect(bodies()).toContain("confidential");
  clock.advance(DAY_MS + 1);
  expect(await remove()).toBe(1);
  expect(bodies()).toContain("message.created");
  expect(bodies()).not.toContain("confidential");
});
