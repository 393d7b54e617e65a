import { afterAll, expect, test } from "bun:test";
import { chatRest, outcome } from "../features/chat/rest.ts";
import type { Body } from "../features/chat/world.ts";

const chat = await chatRest({
  CHAT_SEND_RATE_LIMIT: 1000,
  CHAT_REACTION_RATE_LIMIT: 1000,
  CHAT_MAX_REACTIONS_PER_MESSAGE: 5,
});
afterAll(chat.close);
const { ask, key, send } = chat;
await chat.room("general", ["alice", "bob", { userId: "max", role: "MODERATOR" }]);
const alice = await chat.token("alice");
const bob = await chat.token("bob");
const newMessage = async (text = "x", credential = alice): Promise<string> =>
  (await send(credential, "general", text)).body.id;
const reactions = (id: string, rest = "") => `/v1/chat/messages/${id}/reactions${rest}`;

test("[4.3] a reaction exists once per user and emoji; users react for themselves, servers for any user", async () => {
  const id = await newMessage();
  const first = await ask(alice, "POST", reactions(id), { emoji: "👍", userId: "bob" });
  expect([first.status, first.body]).toEqual([
    201,
    { messageId: id, emoji: "👍", userId: "alice", reactions: [{ emoji: "👍", count: 1, userIds: ["alice"] }] },
  ]);
  const again = await ask(alice, "POST", reactions(id), { emoji: "👍" });
  expect([again.status, again.body]).toEqual([200, first.body]);
  expect((await ask(key, "POST", reactions(id), { emoji: "👍", userId: "carl" })).status).toBe(201);
  expect((await ask(bob, "POST", reactions(id), { emoji: "🎉" })).body.reactions).toEqual([
    { emoji: "👍", count: 2, userIds: ["alice", "carl"] },
    { emoji: "🎉", count: 1, userIds: ["bob"] },
  ]);
  expect((await ask(bob, "GET", `/v1/chat/messages/${id}`)).body.reactions).toHaveLength(2);
  expect(outcome(await ask(key, "POST", reactions(id), { emoji: "👍" }))).toBe("400 SVC_VALIDATION_FAILED");
  expect(outcome(await ask(alice, "POST", reactions(id), {}))).toBe("400 SVC_VALIDATION_FAILED");
  expect(outcome(await ask(alice, "POST", reactions("msg_none"), { emoji: "x" }))).toBe("404 SVC_MESSAGE_NOT_FOUND");
});

test("[contract 4] an emoji is any text of 1-64 characters", async () => {
  const id = await newMessage();
  for (const [emoji, status] of [
    ["", 400],
    ["a", 201],
    ["👩‍👩‍👧‍👦", 201],
    ["😀".repeat(64), 201],
    // `DELETE …/reactions/..` would delete the message.
    ["..", 400],
    ["😀".repeat(65), 400],
    ["x".repeat(65), 400],
    ["<b>/../%2f?#", 201],
  ] as const) {
    expect([emoji, (await ask(alice, "POST", reactions(id), { emoji })).status]).toEqual([emoji, status]);
  }
  const path = reactions(id, `/${encodeURIComponent("<b>/../%2f?#")}`);
  expect((await ask(alice, "DELETE", path)).status).toBe(204);
  const left = (await ask(alice, "GET", `/v1/chat/messages/${id}`)).body.reactions.map(({ emoji }: Body) => emoji);
  expect(left).toEqual(["a", "👩‍👩‍👧‍👦", "😀".repeat(64)]);
});

test("[4.3] users remove their own reactions and servers any; removing a missing reaction is 204 without an event", async () => {
  const id = await newMessage();
  await ask(alice, "POST", reactions(id), { emoji: "👍" });
  await ask(bob, "POST", reactions(id), { emoji: "👍" });
  const thumb = reactions(id, `/${encodeURIComponent("👍")}`);
  const seq = (await chat.events("general")).at(-1)?.seq;
  expect((await ask(bob, "DELETE", reactions(id, "/nope"))).status).toBe(204);
  expect((await chat.events("general")).at(-1)?.seq).toBe(seq);
  expect((await ask(bob, "DELETE", `${thumb}?userId=alice`)).status).toBe(204);
  expect((await ask(bob, "GET", `/v1/chat/messages/${id}`)).body.reactions).toEqual([
    { emoji: "👍", count: 1, userIds: ["alice"] },
  ]);
  expect(outcome(await ask(key, "DELETE", thumb))).toBe("400 SVC_VALIDATION_FAILED");
  expect((await ask(key, "DELETE", `${thumb}?userId=alice`)).status).toBe(204);
  expect((await ask(bob, "GET", `/v1/chat/messages/${id}`)).body.reactions).toEqual([]);
  expect((await chat.events("general")).at(-1)).toMatchObject({
    type: "reaction.removed",
    messageId: id,
    userId: "alice",
    emoji: "👍",
    reactions: [],
  });
});

test("[8] a message has at most CHAT_MAX_REACTIONS_PER_MESSAGE pairs of user and emoji", async () => {
  const id = await newMessage();
  for (let i = 0; i < 5; i += 1) {
    expect((await ask(key, "POST", reactions(id), { emoji: i % 2 ? "a" : "b", userId: `u${i}` })).status).toBe(201);
  }
  expect(outcome(await ask(alice, "POST", reactions(id), { emoji: "a" }))).toBe("409 SVC_REACTION_LIMIT_REACHED");
  expect((await ask(key, "POST", reactions(id), { emoji: "b", userId: "u0" })).status).toBe(200);
  await ask(key, "DELETE", `${reactions(id, "/b")}?userId=u0`);
  expect((await ask(alice, "POST", reactions(id), { emoji: "a" })).status).toBe(201);
});

test("[contract 6] a reaction lists fifty user ids and counts all users", async () => {
  const many = await chatRest({ CHAT_MAX_REACTIONS_PER_MESSAGE: 200 });
  try {
    await many.room("r");
    const { id } = (await many.send(many.key, "r", "x")).body;
    for (let i = 0; i < 60; i += 1) await many.ask(many.key, "POST", reactions(id), { emoji: "a", userId: `u${i}` });
    const [summary] = (await many.ask(many.key, "GET", `/v1/chat/messages/${id}`)).body.reactions;
    expect([summary.count, summary.userIds.length]).toEqual([60, 50]);
  } finally {
    await many.close();
  }
});

test("[4.3] the read position only moves forward, and unread counts the messages of others that are not deleted", async () => {
  await chat.room("read", ["alice", "bob"]);
  const state = async (credential: string, user?: string): Promise<Body> =>
    (await ask(credential, "GET", `/v1/chat/conversations/read/read-state${user ? `?userId=${user}` : ""}`)).body;
  const post = async (text: string, by = bob): Promise<Body> => (await send(by, "read", text)).body;
  expect(await state(alice)).toEqual({
    userId: "alice",
    lastReadMessageId: null,
    lastReadSeq: null,
    lastReadAt: null,
    unreadCount: 0,
    mentionCount: 0,
  });
  const [m1, m2, m3] = [await post("1"), await post("2"), await post("3")];
  await post("mine", alice);
  expect((await state(alice)).unreadCount).toBe(3);
  expect((await state(bob)).unreadCount).toBe(1);

  chat.clock.advance(1000);
  const marked = await ask(alice, "POST", `/v1/chat/messages/${m2.id}/read`);
  const at = new Date(chat.clock.now()).toISOString();
  expect([marked.status, marked.body]).toEqual([
    200,
    { userId: "alice", lastReadMessageId: m2.id, lastReadSeq: m2.seq, lastReadAt: at, unreadCount: 1, mentionCount: 0 },
  ]);
  // Backward: nothing moves.
  expect((await ask(alice, "POST", `/v1/chat/messages/${m1.id}/read`)).body).toEqual(marked.body);
  expect(await state(key, "alice")).toEqual(marked.body);
  await ask(bob, "DELETE", `/v1/chat/messages/${m3.id}`);
  expect((await state(alice)).unreadCount).toBe(0);
  await ask(alice, "DELETE", `/v1/chat/messages/${m1.id}`).catch(() => {});
  await post("4");
  expect((await state(alice)).unreadCount).toBe(1);
  // Marking is no durable event.
  const types = (await chat.events("read")).map(({ type }) => type);
  expect(types.filter((type) => type.startsWith("read"))).toEqual([]);

  expect(outcome(await ask(key, "GET", "/v1/chat/conversations/read/read-state"))).toBe("400 SVC_VALIDATION_FAILED");
  expect(outcome(await ask(key, "POST", `/v1/chat/messages/${m2.id}/read`))).toBe("400 SVC_VALIDATION_FAILED");
  expect((await ask(key, "POST", `/v1/chat/messages/${m2.id}/read`, { userId: "zoe" })).body.lastReadMessageId).toBe(
    m2.id,
  );
  expect((await ask(key, "POST", `/v1/chat/messages/${m2.id}/read?userId=yan`)).body.userId).toBe("yan");
  // A token's user reads for themselves, whatever the body says.
  expect((await ask(bob, "POST", `/v1/chat/messages/${m2.id}/read`, { userId: "alice" })).body.userId).toBe("bob");

  for (const credential of [key, alice]) {
    const receipts = (await ask(credential, "GET", "/v1/chat/conversations/read/read-receipts")).body;
    expect(receipts).toEqual([
      { userId: "bob", lastReadMessageId: m2.id, lastReadSeq: m2.seq, lastReadAt: at },
      { userId: "alice", lastReadMessageId: m2.id, lastReadSeq: m2.seq, lastReadAt: at },
    ]);
  }
});

test("[chat] unread messages are counted in total and by conversation, for users and for servers", async () => {
  const fresh = await chatRest();
  try {
    const a = await fresh.room("a", ["alice"]);
    const b = await fresh.room("b", ["alice"]);
    await fresh.room("c", ["alice"]);
    for (const room of ["a", "a", "b"]) await fresh.send(fresh.key, room, { text: "x", senderId: "bob" });
    const expected = {
      userId: "alice",
      total: 3,
      mentions: 0,
      conversations: [
        { conversationId: b.id, unreadCount: 1, mentionCount: 0 },
        { conversationId: a.id, unreadCount: 2, mentionCount: 0 },
      ],
    };
    expect((await fresh.ask(await fresh.token("alice"), "GET", "/v1/chat/unread")).body).toEqual(expected);
    expect((await fresh.ask(fresh.key, "GET", "/v1/chat/unread?userId=alice")).body).toEqual(expected);
    expect(outcome(await fresh.ask(fresh.key, "GET", "/v1/chat/unread"))).toBe("400 SVC_VALIDATION_FAILED");
    const narrowed = await fresh.token("alice", { conversations: ["a"] });
    expect((await fresh.ask(narrowed, "GET", "/v1/chat/unread")).body.total).toBe(2);
    const other = await fresh.server.project();
    expect((await fresh.ask(other.key, "GET", "/v1/chat/unread?userId=alice")).body.total).toBe(0);
  } finally {
    await fresh.close();
  }
});

test("[chat] moderators pin and unpin, all members list pins, and a deleted message is no longer pinned", async () => {
  await chat.room("board", ["alice", { userId: "max", role: "MODERATOR" }]);
  const ids = [];
  for (const text of ["one", "two", "three"]) ids.push((await send(alice, "board", text)).body.id);
  const pin = (id: string) => `/v1/chat/messages/${id}/pin`;
  const max = await chat.token("max");
  expect(outcome(await ask(alice, "POST", pin(ids[0])))).toBe("403 SVC_PERMISSION_DENIED");
  for (const id of ids) {
    chat.clock.advance(1);
    expect((await ask(max, "POST", pin(id))).body.pinned).toBe(true);
  }
  const seq = (await chat.events("board")).at(-1)?.seq;
  await ask(key, "POST", pin(ids[0]));
  expect((await chat.events("board")).at(-1)?.seq).toBe(seq);
  const pinned = async () =>
    (await ask(alice, "GET", "/v1/chat/conversations/board/pins")).body.map(({ text }: Body) => text);
  expect(await pinned()).toEqual(["three", "two", "one"]);
  expect((await ask(max, "DELETE", pin(ids[1]))).status).toBe(204);
  await ask(alice, "DELETE", `/v1/chat/messages/${ids[2]}`);
  expect(await pinned()).toEqual(["one"]);
  expect(outcome(await ask(max, "POST", pin(ids[2])))).toBe("409 SVC_MESSAGE_DELETED");
});
