import { afterAll, expect, test } from "bun:test";
import { chatRest, outcome } from "../features/chat/rest.ts";
import type { Body } from "../features/chat/world.ts";

const chat = await chatRest({ CHAT_SEND_RATE_LIMIT: 1000 });
afterAll(chat.close);
const { ask, key, send, history } = chat;
await chat.room("general", ["alice", "bob"]);
const alice = await chat.token("alice");
const texts = (answer: { body: Body }): string[] => answer.body.data.map((message: Body) => message.text);

const sent: Body[] = [];
for (let i = 1; i <= 25; i += 1) {
  sent.push((await send(key, "general", { text: `m${i}`, senderId: i % 5 === 0 ? "bob" : "alice" })).body);
}
const newestFirst = sent.map(({ text }) => text).reverse();

test("[4.3] history is newest first, and before leads to the oldest message, each once", async () => {
  for (const credential of [key, alice]) {
    const seen: string[] = [];
    let before: string | null = "";
    let pages = 0;
    while (before !== null) {
      const { body }: { body: Body } = await history(
        credential,
        "general",
        `?limit=10${before && `&before=${before}`}`,
      );
      seen.push(...texts({ body }));
      pages += 1;
      expect(body.hasMore).toBe(pages < 3);
      before = body.nextCursor;
    }
    expect([seen, pages]).toEqual([newestFirst, 3]);
  }
  // A page that ends exactly at the oldest is the last one.
  const exact = (await history(key, "general", "?limit=25")).body;
  expect([exact.data.length, exact.nextCursor, exact.hasMore]).toEqual([25, null, false]);
});

test("[4.3] after leads to newer messages, newest first on each page, and its end can be used again later", async () => {
  const start = (await history(key, "general", "?limit=25")).body.data.at(-1).cursor;
  const seen: string[] = [];
  let after = start;
  for (;;) {
    const { body } = await history(alice, "general", `?limit=10&after=${after}`);
    seen.unshift(...texts({ body }));
    after = body.previousCursor;
    if (!body.hasMore) break;
    expect(body.nextCursor).toBe(body.previousCursor);
  }
  expect(seen).toEqual(newestFirst.slice(0, 24));

  const caughtUp = (await history(alice, "general", `?after=${after}`)).body;
  expect(caughtUp).toEqual({ data: [], nextCursor: null, previousCursor: after, hasMore: false });
  const fresh = (await send(alice, "general", "fresh")).body;
  expect(texts(await history(alice, "general", `?after=${caughtUp.previousCursor}`))).toEqual(["fresh"]);
  await ask(alice, "DELETE", `/v1/chat/messages/${fresh.id}`);
});

test("[1] an unreadable cursor is SVC_INVALID_CURSOR, never the first page; both directions together are 400", async () => {
  const cursor = sent[3]?.cursor;
  const page = (query: string) => history(key, "general", `?${query}`);
  const members = Buffer.from(JSON.stringify(["members", 1, "x"])).toString("base64url");
  const fraction = Buffer.from(JSON.stringify(["m", 1.5])).toString("base64url");
  for (const bad of ["x", "%00", "AAAA", members, fraction, `${cursor}x`, "🙂", "a".repeat(200)]) {
    expect([bad, outcome(await page(`before=${encodeURIComponent(bad)}`))]).toEqual([bad, "400 SVC_INVALID_CURSOR"]);
    expect([bad, outcome(await page(`after=${encodeURIComponent(bad)}`))]).toEqual([bad, "400 SVC_INVALID_CURSOR"]);
  }
  expect(outcome(await page(`before=${"a".repeat(257)}`))).toBe("400 SVC_VALIDATION_FAILED");
  expect(outcome(await page(`before=${cursor}&after=${cursor}`))).toBe("400 SVC_VALIDATION_FAILED");
  expect((await page("before=&after=")).status).toBe(200);
  for (const limit of ["0", "101", "-1", "x", "2.5"]) {
    expect([limit, outcome(await page(`limit=${limit}`))]).toEqual([limit, "400 SVC_VALIDATION_FAILED"]);
  }
  for (const limit of ["1", "100"]) expect((await page(`limit=${limit}`)).status).toBe(200);
});

test("[4.3] senderId filters, and only includeDeleted shows tombstones, without their text", async () => {
  expect(texts(await history(alice, "general", "?senderId=bob"))).toEqual(["m25", "m20", "m15", "m10", "m5"]);
  expect(texts(await history(alice, "general", "?senderId=bob&limit=2"))).toEqual(["m25", "m20"]);
  expect(texts(await history(alice, "general", "?senderId=nobody"))).toEqual([]);

  await chat.room("tombs", ["alice"]);
  const [first, second] = [(await send(alice, "tombs", "one")).body, (await send(alice, "tombs", "two")).body];
  await ask(alice, "DELETE", `/v1/chat/messages/${first.id}`);
  expect(texts(await history(alice, "tombs"))).toEqual(["two"]);
  expect(texts(await history(alice, "tombs", "?includeDeleted=false"))).toEqual(["two"]);
  const all = (await history(alice, "tombs", "?includeDeleted=true")).body.data;
  expect(all.map(({ id, text, deleted }: Body) => [id, text, deleted])).toEqual([
    [second.id, "two", false],
    [first.id, null, true],
  ]);
  expect(outcome(await history(alice, "tombs", "?includeDeleted=maybe"))).toBe("400 SVC_VALIDATION_FAILED");
});

test("[2] a reply joins the thread of its parent, and the root counts the whole thread", async () => {
  await chat.room("threads", ["alice", "bob"]);
  const bob = await chat.token("bob");
  const root = (await send(alice, "threads", "root")).body;
  const reply = (await send(bob, "threads", { text: "re 1", replyTo: root.id })).body;
  expect([reply.replyTo, reply.threadRootId]).toEqual([root.id, root.id]);
  const nested = (await send(alice, "threads", { text: "re 2", replyTo: reply.id })).body;
  expect([nested.replyTo, nested.threadRootId]).toEqual([reply.id, root.id]);
  await send(alice, "threads", "aside");
  const thread = async (id: string, credential = alice, query = "") =>
    (await ask(credential, "GET", `/v1/chat/messages/${id}/thread${query}`)).body.map(({ text }: Body) => text);
  for (const credential of [key, alice, bob]) {
    for (const id of [root.id, reply.id, nested.id]) {
      expect(await thread(id, credential)).toEqual(["root", "re 1", "re 2"]);
    }
  }
  expect((await ask(key, "GET", `/v1/chat/messages/${root.id}`)).body.replyCount).toBe(2);
  expect(texts(await history(alice, "threads", `?threadRootId=${root.id}`))).toEqual(["re 2", "re 1"]);
  expect(texts(await history(alice, "threads", `?threadRootId=${root.id}&senderId=bob`))).toEqual(["re 1"]);

  await ask(bob, "DELETE", `/v1/chat/messages/${reply.id}`);
  expect((await ask(key, "GET", `/v1/chat/messages/${root.id}`)).body.replyCount).toBe(1);
  expect(await thread(root.id)).toEqual(["root", "re 2"]);
  expect(await thread(root.id, alice, "?includeDeleted=true")).toEqual(["root", null, "re 2"]);
  await ask(alice, "DELETE", `/v1/chat/messages/${root.id}`);
  expect(await thread(nested.id)).toEqual([null, "re 2"]);

  const elsewhere = (await send(key, "general", "far away")).body;
  expect(outcome(await send(alice, "threads", { text: "x", replyTo: elsewhere.id }))).toBe("404 SVC_MESSAGE_NOT_FOUND");
  expect(outcome(await send(alice, "threads", { text: "x", replyTo: "msg_none" }))).toBe("404 SVC_MESSAGE_NOT_FOUND");
});

test("[contract 13] a thread of 300 replies is returned in one page, and a page limited by `limit` has a Link to the next", async () => {
  await chat.room("long");
  const root = (await send(key, "long", "root")).body;
  await chat.server.runtime.write((unit) => {
    for (let i = 0; i < 300; i += 1) {
      const { conversation, ...rest } = chat.server.services.chat.access.conversation(
        { kind: "apiKey", keyId: "", publicId: "", name: "k", projectId: chat.projectId, environment: "DEVELOPMENT" },
        "long",
        "chat:send",
      );
      chat.server.services.chat.messages.send(unit, { conversation, ...rest } as never, {
        text: `r${i}`,
        replyTo: root.id,
      });
    }
  });
  const whole = await ask(key, "GET", `/v1/chat/messages/${root.id}/thread`);
  expect(whole.body.map(({ text }: Body) => text)).toEqual(["root", ...Array.from({ length: 300 }, (_, i) => `r${i}`)]);
  expect(whole.headers.get("link")).toBeNull();
  const asked = await ask(key, "GET", `/v1/chat/messages/${root.id}/thread?limit=1000`);
  expect(asked.body).toEqual(whole.body);
  expect((await ask(key, "GET", `/v1/chat/messages/${root.id}/thread?limit=1001`)).status).toBe(400);
  const part = await ask(key, "GET", `/v1/chat/messages/${root.id}/thread?limit=2`);
  expect(part.body.map(({ text }: Body) => text)).toEqual(["root", "r0"]);
  const next = /<([^>]+)>/.exec(part.headers.get("link") ?? "")?.[1] ?? "";
  expect((await ask(key, "GET", next)).body.map(({ text }: Body) => text)).toEqual(["r1", "r2"]);
});

test("[contract 8] events are numbered 1, 2, 3 … without a gap and paged by seq or cursor", async () => {
  const made = await chat.room("eventful", ["alice", "bob"]);
  const message = (await send(alice, "eventful", "v1")).body;
  await ask(alice, "PATCH", `/v1/chat/messages/${message.id}`, { text: "v2" });
  await ask(alice, "POST", `/v1/chat/messages/${message.id}/reactions`, { emoji: "👍" });
  await ask(alice, "DELETE", `/v1/chat/messages/${message.id}/reactions/${encodeURIComponent("👍")}`);
  await ask(key, "PATCH", "/v1/chat/conversations/eventful", { metadata: { x: 1 } });
  await ask(key, "PATCH", "/v1/chat/conversations/eventful/members/bob", { role: "ADMIN" });
  await ask(key, "DELETE", "/v1/chat/conversations/eventful/members/bob");
  const path = "/v1/chat/conversations/eventful/events";
  for (const credential of [key, alice]) {
    const { body } = await ask(credential, "GET", path);
    expect(body.data.map(({ seq, type }: Body) => `${seq} ${type}`)).toEqual([
      "1 member.joined",
      "2 member.joined",
      "3 message",
      "4 message.updated",
      "5 reaction.added",
      "6 reaction.removed",
      "7 conversation.updated",
      "8 member.updated",
      "9 member.left",
    ]);
    for (const event of body.data) expect([event.conversationId, typeof event.at]).toEqual([made.id, "string"]);
    expect([body.hasMore, body.nextCursor, body.lastSeq, body.recovered]).toEqual([false, null, 9, true]);

    const seqs: number[] = [];
    let after: string | null = "2";
    while (after !== null) {
      const page: Body = (await ask(credential, "GET", `${path}?limit=3&after=${after}`)).body;
      seqs.push(...page.data.map(({ seq }: Body) => seq));
      after = page.nextCursor;
    }
    expect(seqs).toEqual([3, 4, 5, 6, 7, 8, 9]);
  }
  expect((await ask(key, "GET", `${path}?after=9`)).body).toMatchObject({ data: [], recovered: true });
  expect((await ask(key, "GET", `${path}?after=10`)).body).toMatchObject({ data: [], recovered: false });
  for (const [query, code] of [
    ["after=x", "400 SVC_INVALID_CURSOR"],
    ["after=-1", "400 SVC_INVALID_CURSOR"],
    [`after=${message.cursor}`, "400 SVC_INVALID_CURSOR"],
    ["limit=0", "400 SVC_VALIDATION_FAILED"],
    ["limit=201", "400 SVC_VALIDATION_FAILED"],
  ] as const) {
    expect([query, outcome(await ask(key, "GET", `${path}?${query}`))]).toEqual([query, code]);
  }
});
