import { afterAll, expect, test } from "bun:test";
import { testServer } from "../../harness/server.ts";

const server = testServer({ CHAT_SEND_RATE_LIMIT: 100_000 });
afterAll(server.close);
const { key } = await server.project();
const { key: otherKey } = await server.project();

// biome-ignore lint/suspicious/noExplicitAny: answers are looked into freely
const ask = async (method: string, path: string, body?: unknown, as = key): Promise<any> =>
  server.call(method, path, { key: as, body });
const token = async (userId: string) => (await ask("POST", "/v1/chat/tokens", { userId })).body.token as string;
const alice = await token("alice");
const mallory = await token("mallory");

async function newRoom(...texts: string[]) {
  const members = [{ userId: "alice" }];
  const { body } = await ask("POST", "/v1/chat/conversations", { name: crypto.randomUUID().slice(0, 13), members });
  const path = `/v1/chat/conversations/${body.id}`;
  const ids: string[] = [];
  for (const text of texts) ids.push((await ask("POST", `${path}/messages`, { text })).body.id);
  return {
    path,
    ids,
    send: async (text: string) => (await ask("POST", `${path}/messages`, { text })).body.id as string,
    find: async (q: string, as = key): Promise<string[]> => {
      const { status, body } = await ask("GET", `${path}/search?q=${encodeURIComponent(q)}`, undefined, as);
      if (status !== 200) throw new Error(`${q}: ${JSON.stringify(body)}`);
      return body.map(({ text }: { text: string }) => text);
    },
  };
}

test("[chat] search returns the messages that hold every word, newest first", async () => {
  const room = await newRoom("the quick brown fox", "a lazy dog", "the quick dog", "nothing");
  expect(await room.find("quick")).toEqual(["the quick dog", "the quick brown fox"]);
  expect(await room.find("dog quick")).toEqual(["the quick dog"]);
  expect(await room.find("QUICK")).toHaveLength(2);
  expect(await room.find("cat")).toEqual([]);
  expect(await room.find("quick cat")).toEqual([]);
  const { body } = await ask("GET", `${room.path}/search?q=lazy`, undefined, alice);
  const { body: message } = await ask("GET", `/v1/chat/messages/${room.ids[1]}`, undefined, alice);
  expect(body).toEqual([message]);
});

test("[chat] a member who is removed while the index is brought up to date finds nothing", async () => {
  const room = await newRoom("the plan");
  const { search } = server.services;
  const { catchUp } = search;
  search.catchUp = async () => {
    await ask("DELETE", `${room.path}/members/alice`);
    await catchUp();
  };
  const { status } = await ask("GET", `${room.path}/search?q=plan`, undefined, alice);
  search.catchUp = catchUp;
  expect(status).toBe(404);
  expect(await room.find("plan")).toEqual(["the plan"]);
});

test("[chat] the last word may be a prefix, and accents and case do not matter", async () => {
  const room = await newRoom("Crème brûlée für Zoë", "Straßenbahn");
  for (const q of ["creme", "BRULEE", "fur", "zoe", "crème bru", "stra", "STRAẞENBAHN"]) {
    expect([q, (await room.find(q)).length]).toEqual([q, 1]);
  }
  expect(await room.find("bru creme")).toEqual([]);
  expect(await room.find("cr")).toEqual([]);
  expect(await room.find("reme")).toEqual([]);
});

test("[chat] scripts without spaces, and emoji, are found inside a text", async () => {
  const room = await newRoom(
    "今日は会議があります",
    "明日は休みです",
    "ยินดีต้อนรับ",
    "nice work👍🎉",
    "👨‍👩‍👧 family",
    "서울에서 만나요",
  );
  expect(await room.find("会議")).toEqual(["今日は会議があります"]);
  expect(await room.find("日は")).toHaveLength(2);
  expect(await room.find("議会")).toEqual([]);
  expect(await room.find("ต้อน")).toEqual(["ยินดีต้อนรับ"]);
  expect(await room.find("👍")).toEqual(["nice work👍🎉"]);
  expect(await room.find("work")).toEqual(["nice work👍🎉"]);
  expect(await room.find("👨‍👩‍👧")).toEqual(["👨‍👩‍👧 family"]);
  expect(await room.find("서울에")).toEqual(["서울에서 만나요"]);
  expect(await room.find("👍\ufe0f")).toEqual(["nice work👍🎉"]);
});

test("[chat] operators, columns, quotes and brackets of SQLite's query language have no meaning in a query", async () => {
  const room = await newRoom("alpha beta", "gamma", 'say "hi" NOT', "text colon", "scope");
  for (const [q, found] of [
    ["alpha OR gamma", 0],
    ["alpha NOT beta", 0],
    ["hi NOT", 1],
    ['"alpha beta"', 1],
    ['"alpha gamma"', 0],
    ["alpha*", 1],
    ["^gamma", 1],
    ["text:alpha", 0],
    ["text : gamma", 0],
    ["text:colon", 1],
    ["rowid:1", 0],
    ["{text rowid} : alpha", 0],
    ["NEAR(alpha beta)", 0],
    ["(alpha", 1],
    ["alpha)", 1],
    ['alpha"', 1],
    ['"', 0],
    ["'; DROP TABLE messages; --", 0],
    ["\\", 0],
    ["alpha AND", 0],
    ["*", 0],
    ["-alpha", 1],
    ["%", 0],
    ["\0alpha", 1],
    ["!!!", 0],
    ["alpha ! beta", 1],
  ] as const) {
    expect([q, (await room.find(q)).length]).toEqual([q, found]);
  }
  expect(await room.find("gamma")).toEqual(["gamma"]);
});

test("[chat] an edited message is found by its new words only, a deleted one by none", async () => {
  const room = await newRoom("first draft", "to be deleted");
  await ask("PATCH", `/v1/chat/messages/${room.ids[0]}`, { text: "final version" });
  expect(await room.find("draft")).toEqual([]);
  expect(await room.find("final")).toEqual(["final version"]);
  await ask("PATCH", `/v1/chat/messages/${room.ids[0]}`, { metadata: { a: 1 } });
  expect(await room.find("final")).toEqual(["final version"]);

  await ask("DELETE", `/v1/chat/messages/${room.ids[1]}`);
  expect(await room.find("deleted")).toEqual([]);
  await server.services.search.catchUp();
  const left = server.runtime.db.$client.query("SELECT rowid FROM message_search ORDER BY rowid DESC LIMIT 1").get();
  const newest = server.runtime.db.$client
    .query("SELECT id AS rowid FROM messages ORDER BY id DESC LIMIT 1 OFFSET 1")
    .get();
  expect(left).toEqual(newest);
});

test("[chat] a search covers one conversation only, and only its members can search it", async () => {
  const room = await newRoom("secret plan");
  const other = await newRoom("another plan");
  expect(await room.find("plan")).toEqual(["secret plan"]);
  expect(await other.find("plan")).toEqual(["another plan"]);
  expect(await room.find("plan", alice)).toEqual(["secret plan"]);
  for (const as of [mallory, otherKey]) {
    const { status, body, text } = await server.call("GET", `${room.path}/search?q=plan`, { key: as });
    expect([status, body.code]).toEqual([404, "SVC_CONVERSATION_NOT_FOUND"]);
    expect(text).not.toContain("secret");
  }
  expect((await server.call("GET", `${room.path}/search?q=plan`)).status).toBe(401);
});

test("[contract 1] limit and cursor return every match once, and invalid ones are refused", async () => {
  const room = await newRoom();
  for (let i = 0; i < 25; i += 1) await room.send(i % 2 ? `odd ${i}` : `even ${i}`);
  const seen: string[] = [];
  let path: string | null = `${room.path}/search?q=odd&limit=5`;
  let pages = 0;
  while (path !== null) {
    const { body, headers } = await server.call("GET", path, { key });
    seen.push(...(body as unknown as { text: string }[]).map(({ text }) => text));
    path = /^<([^>]+)>; rel="next"$/.exec(headers.get("link") ?? "")?.[1] ?? null;
    pages += 1;
    // Messages that arrive meanwhile are newer than the cursor.
    await room.send(`odd later ${pages}`);
  }
  expect(pages).toBe(3);
  expect(seen).toEqual(Array.from({ length: 12 }, (_, i) => `odd ${23 - i * 2}`));

  const status = async (query: string) => (await server.call("GET", `${room.path}/search?${query}`, { key })).status;
  expect(await status("")).toBe(400);
  expect(await status("q=")).toBe(400);
  expect(await status(`q=${"x".repeat(256)}`)).toBe(200);
  expect(await status(`q=${"x".repeat(257)}`)).toBe(400);
  expect(await status("q=a&limit=0")).toBe(400);
  expect(await status("q=a&limit=200")).toBe(200);
  expect(await status("q=a&limit=201")).toBe(400);
  const wrong = await server.call("GET", `${room.path}/search?q=a&cursor=nonsense`, { key });
  expect([wrong.status, wrong.body.code]).toEqual([400, "SVC_INVALID_CURSOR"]);
});

test("[chat] a message that could not be saved is not found", async () => {
  const room = await newRoom();
  const { status } = await ask("POST", `${room.path}/messages`, { text: "orphan", replyTo: "msg_unknown" });
  expect(status).toBe(404);
  expect(await room.find("orphan")).toEqual([]);
});

test("[chat] a message is indexed half a second after it was sent", async () => {
  const { db } = server.runtime;
  const pending = () => (db.$client.query("SELECT count(*) AS n FROM search_pending").get() as { n: number }).n;
  await server.services.search.catchUp();
  await newRoom("one", "two", "three");
  expect(pending()).toBe(3);
  server.clock.advance(500);
  while (pending() > 0) await Bun.sleep(1);
  const last = db.$client.query("SELECT rowid FROM message_search ORDER BY rowid DESC LIMIT 1").get();
  expect(last).toEqual(db.$client.query("SELECT max(id) AS rowid FROM messages").get());
});

test("[8] a user can search as often as CHAT_TYPING_RATE_LIMIT allows, a server without limit", async () => {
  const room = await newRoom("hello");
  const carol = await token("carol");
  await ask("POST", `${room.path}/members`, { userId: "carol" });
  const statuses = [];
  for (let i = 0; i < 121; i += 1) {
    statuses.push((await server.call("GET", `${room.path}/search?q=hello`, { key: carol })).status);
  }
  expect(statuses).toEqual([...Array(120).fill(200), 429]);
  expect((await server.call("GET", `${room.path}/search?q=hello`, { key })).status).toBe(200);
});

test("[chat] a stopped indexer writes nothing more, and the next run indexes the pending messages", async () => {
  const stopping = testServer();
  const { key: owner } = await stopping.project();
  const { body } = await stopping.call("POST", "/v1/chat/conversations", { key: owner, body: { name: "late" } });
  await stopping.call("POST", `/v1/chat/conversations/${body.id}/messages`, { key: owner, body: { text: "late" } });
  await stopping.services.search.stop();
  stopping.clock.advance(60_000);
  await stopping.runtime.writer.drain();
  const marked = stopping.runtime.db.$client.query("SELECT count(*) AS n FROM search_pending").get();
  expect(marked).toEqual({ n: 1 });
  await stopping.close();
});

test("[4.3] the last word of the longest message is found, even if each syllable decomposes into three characters", async () => {
  const room = await newRoom(`${"가나다라 ".repeat(799)}마지막`);
  const { body } = await ask("GET", `${room.path}/search?q=${encodeURIComponent("마지막")}`);
  expect(body).toMatchObject([{ id: room.ids[0] }]);
});
