import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { type ChatRest, chatRest, outcome } from "../features/chat/rest.ts";
import { fakeNetwork } from "../features/chat/socket/fake-socket.ts";
import type { Body } from "../features/chat/world.ts";
import { newBrowser } from "../features/push/browser.ts";

let pushed: string[] = [];
let status = 201;
/** A push service of our own. */
const service = Bun.serve({
  port: 0,
  hostname: "127.0.0.1",
  fetch(request) {
    pushed.push(new URL(request.url).pathname);
    return new Response(null, { status });
  },
});

let chat: ChatRest;
let network: ReturnType<typeof fakeNetwork>;
beforeAll(async () => {
  chat = await chatRest({ PUSH_MAX_SUBSCRIPTIONS: 2, CHAT_SUBSCRIBE_RATE_LIMIT: 1000 });
  network = fakeNetwork(chat);
});
afterEach(() => {
  pushed = [];
  status = 201;
});
afterAll(async () => {
  await chat.close();
  await service.stop(true);
});

let count = 0;
/** Two conversations of the same two users, both attached to a room. */
async function twoConversations() {
  const [sender, user] = [`sender${++count}`, `user${count}`];
  const create = async (name: string) => {
    const roomId = (await chat.ask(chat.key, "POST", "/v1/rooms", { name: `room-${name}-${count}` })).body.id;
    return (await chat.room(`${name}-${count}`, [sender, user], { roomId })).id as string;
  };
  return { sender, user, own: await create("own"), other: await create("other") };
}
const subscribe = (credential: string, path: string, more: object = {}) =>
  chat.ask(credential, "POST", "/v1/chat/push/subscriptions", {
    endpoint: `http://127.0.0.1:${service.port}${path}`,
    keys: newBrowser().keys,
    ...more,
  });
const send = (senderId: string, room: string) => chat.send(chat.key, room, { senderId, text: "secret" });
const ring = async (userId: string, room: string): Promise<Body> =>
  (await chat.ask(chat.key, "POST", `/v1/chat/conversations/${room}/rings`, { userId })).body;
async function deliver(): Promise<string[]> {
  const all: string[] = [];
  // A subscription gets one attempt at a time.
  for (;;) {
    await chat.server.services.push.dispatcher.runDue();
    if (pushed.length === 0) return all;
    all.push(...pushed.splice(0));
  }
}
const mint = async (input: object): Promise<{ token: string; tokenId: string }> =>
  (await chat.ask(chat.key, "POST", "/v1/chat/tokens", input)).body;

test("a push subscription receives messages and rings of its token's conversations only", async () => {
  const { sender, user, own, other } = await twoConversations();
  const { token } = await mint({ userId: user, conversations: [own] });
  expect((await subscribe(token, `/${user}`)).status).toBe(201);
  for (const room of [other, own]) {
    await send(sender, room);
    const { id } = await ring(sender, room);
    await chat.ask(chat.key, "POST", `/v1/chat/rings/${id}/cancel`);
    expect([room, (await deliver()).length]).toEqual([room, room === own ? 2 : 0]);
  }
});

test("a token without chat:read subscribes to no pushes", async () => {
  const { user } = await twoConversations();
  const { token } = await mint({ userId: user, scopes: ["chat:send"] });
  expect(outcome(await subscribe(token, "/blind"))).toBe("403 SVC_PERMISSION_DENIED");
  expect(outcome(await chat.ask(token, "GET", "/v1/chat/push/subscriptions"))).toBe("403 SVC_PERMISSION_DENIED");
});

test("a push subscription ends when its token expires, or with `push: keep` only when the token is revoked", async () => {
  const { sender, user, own } = await twoConversations();
  const short = await mint({ userId: user, ttlSeconds: 60 });
  const kept = await mint({ userId: user, ttlSeconds: 60, push: "keep" });
  await subscribe(short.token, "/short");
  await subscribe(kept.token, "/kept");
  await send(sender, own);
  expect((await deliver()).sort()).toEqual(["/kept", "/short"]);
  chat.clock.advance(60_000);
  await send(sender, own);
  expect(await deliver()).toEqual(["/kept"]);
  await chat.server.runtime.write(chat.server.services.push.subscriptions.sweep);
  const list = async () => (await chat.ask(chat.key, "GET", `/v1/chat/push/subscriptions?userId=${user}`)).body;
  expect(await list()).toHaveLength(1);

  const later = await mint({ userId: user, push: "keep" });
  await subscribe(later.token, "/later");
  await send(sender, own);
  await chat.ask(chat.key, "DELETE", `/v1/chat/tokens/${later.tokenId}`);
  expect(await deliver()).toEqual(["/kept"]);
  expect(await list()).toHaveLength(1);
});

test("a subscription that is made again with another token follows that token", async () => {
  const { sender, user, own, other } = await twoConversations();
  const wide = await mint({ userId: user, ttlSeconds: 60 });
  const narrow = await mint({ userId: user, conversations: [own], ttlSeconds: 600 });
  const { keys } = newBrowser();
  await subscribe(wide.token, `/${user}`, { keys });
  expect((await subscribe(narrow.token, `/${user}`, { keys })).status).toBe(200);
  chat.clock.advance(60_000);
  await send(sender, other);
  await send(sender, own);
  expect(await deliver()).toEqual([`/${user}`]);
});

test("a member who was removed or banned gets no push that was still waiting", async () => {
  const { sender, user, own } = await twoConversations();
  await subscribe((await mint({ userId: user })).token, `/${user}`);
  status = 503;
  await send(sender, own);
  expect(await deliver()).toEqual([`/${user}`]);
  status = 201;
  chat.clock.advance(600_000);
  await chat.ask(chat.key, "PATCH", `/v1/chat/conversations/${own}/members/${user}`, { status: "BANNED" });
  expect(await deliver()).toEqual([]);
});

test("a token for some conversations neither lists, removes nor evicts subscriptions for other conversations", async () => {
  const { user, own } = await twoConversations();
  const full = (await mint({ userId: user })).token;
  const limited = (await mint({ userId: user, conversations: [own] })).token;
  const { id } = (await subscribe(full, "/full-1")).body;
  await subscribe(full, "/full-2");
  expect((await chat.ask(limited, "GET", "/v1/chat/push/subscriptions")).body).toEqual([]);
  const remove = await chat.ask(limited, "DELETE", `/v1/chat/push/subscriptions/${id}`);
  expect(outcome(remove)).toBe("404 SVC_PUSH_SUBSCRIPTION_NOT_FOUND");
  expect(outcome(await subscribe(limited, "/limited"))).toBe("409 SVC_LIMIT_REACHED");
  expect((await chat.ask(full, "GET", "/v1/chat/push/subscriptions")).body).toHaveLength(2);
});

test("rings reach the sockets whose token may read the conversation, at once and when they open", async () => {
  const { sender, user, own, other } = await twoConversations();
  const rung = (socket: Awaited<ReturnType<typeof network.connect>>): string[] =>
    socket.socket.frames.filter(({ type }) => String(type).startsWith("call.")).map(({ type }) => String(type));
  const full = await network.connect(user);
  const limited = await network.connect(user, { conversations: [own] });
  const blind = await network.connect(user, { scopes: ["chat:send"] });
  const { id } = await ring(sender, other);
  const lateLimited = await network.connect(user, { conversations: [own] });
  const lateFull = await network.connect(user);
  await chat.ask(chat.key, "POST", `/v1/chat/rings/${id}/cancel`);
  expect(rung(full)).toEqual(["call.ringing", "call.ring_updated"]);
  expect(rung(lateFull)).toEqual(["call.ringing", "call.ring_updated"]);
  for (const socket of [limited, blind, lateLimited]) expect(rung(socket)).toEqual([]);
  await ring(sender, own);
  expect(rung(limited)).toEqual(["call.ringing"]);
  expect(rung(blind)).toEqual([]);
});

test("a socket that cannot read a conversation does not hold back its pushes", async () => {
  const { sender, user, other, own } = await twoConversations();
  await subscribe((await mint({ userId: user })).token, `/${user}`);
  const limited = await network.connect(user, { conversations: [own] });
  await send(sender, other);
  expect(await deliver()).toEqual([`/${user}`]);
  await send(sender, own);
  expect(await deliver()).toEqual([]);
  limited.events.closed(1000);
});

test("a token that is renewed without chat:read leaves the conversations it had joined", async () => {
  const { sender, user, own } = await twoConversations();
  const socket = await network.connect(user);
  await socket.say("room.join", { room: own });
  const blind = await mint({ userId: user, scopes: ["chat:send"] });
  const text = JSON.stringify({ type: "token.refresh", id: "refresh", token: blind.token });
  socket.events.received(text, text.length);
  const answered = () => socket.socket.frames.find(({ id }) => id === "refresh");
  while (!answered()) await new Promise(setImmediate);
  expect(answered()).toMatchObject({ type: "ack" });
  await send(sender, own);
  expect(socket.socket.frames.filter(({ type }) => type === "message")).toEqual([]);
});

test("a socket whose token is revoked while it opens is closed", async () => {
  const { user } = await twoConversations();
  const { token, tokenId } = await mint({ userId: user });
  const caller = await chat.server.services.chat.tokens.verify(token);
  await chat.ask(chat.key, "DELETE", `/v1/chat/tokens/${tokenId}`);
  const closed: number[] = [];
  const socket = { close: (code: number) => closed.push(code), send: () => {} };
  network.chatSockets.opened(socket as never, { caller }, {} as never);
  expect(closed).toEqual([4401]);
});

test("a token for some conversations cannot read or change the user's blocks, which apply to all conversations", async () => {
  const { sender, user, own } = await twoConversations();
  const full = (await mint({ userId: user })).token;
  const limited = (await mint({ userId: user, conversations: [own] })).token;
  const reader = (await mint({ userId: user, scopes: ["chat:read"] })).token;
  const path = `/v1/chat/blocks/${sender}`;
  for (const token of [limited, reader]) {
    for (const method of ["PUT", "DELETE"]) {
      expect(outcome(await chat.ask(token, method, path))).toBe("403 SVC_PERMISSION_DENIED");
    }
  }
  expect(outcome(await chat.ask(limited, "GET", "/v1/chat/blocks"))).toBe("403 SVC_PERMISSION_DENIED");
  expect((await chat.ask(full, "PUT", path)).status).toBe(201);
  expect((await chat.ask(reader, "GET", "/v1/chat/blocks")).body).toMatchObject([{ userId: sender }]);
});
