import { afterEach, beforeEach, expect, test } from "bun:test";
import { type ChatRest, chatRest } from "../rest.ts";
import type { Body } from "../world.ts";
import { type Fake, fakeNetwork } from "./fake-socket.ts";

let chat: ChatRest;
let network: ReturnType<typeof fakeNetwork>;
beforeEach(async () => {
  chat = await chatRest({ CHAT_SUBSCRIBE_RATE_LIMIT: 10_000, CHAT_TYPING_RATE_LIMIT: 1000 });
  network = fakeNetwork(chat);
  await chat.room("general", ["alice", "bob"]);
});
afterEach(() => chat.close());

const joined = async (user: string, input = {}): Promise<Fake> => {
  const fake = await network.connect(user, input);
  await fake.say("room.join", { room: "general" });
  return fake;
};
const seen = ({ socket }: Fake, type: string): Body[] => socket.frames.filter((frame) => frame.type === type);
/** Time passes as the server's clockwork sees it: a sweep every quarter second. */
function pass(seconds: number): void {
  for (let i = 0; i < seconds * 4; i += 1) {
    chat.clock.advance(250);
    network.chatSockets.sweep();
  }
}
const present = async () =>
  (await chat.ask(chat.key, "GET", "/v1/chat/conversations/general/presence")).body.map(
    ({ userId, status }: Body) => `${userId} ${status}`,
  );

test("[8] presence expires CHAT_PRESENCE_TTL_SECONDS after the last frame, and the next frame renews it", async () => {
  const alice = await joined("alice");
  const bob = await joined("bob");
  pass(1);
  expect(seen(alice, "presence").map(({ userId, status }) => `${userId} ${status}`)).toContain("bob online");
  pass(43);
  alice.events.pong?.();
  pass(0.75);
  expect(await present()).toEqual(["alice online", "bob online"]);
  pass(0.5);
  expect(await present()).toEqual(["alice online"]);
  expect(seen(alice, "presence").at(-1)).toMatchObject({ userId: "bob", status: "offline" });
  await bob.say("ping");
  pass(0.25);
  expect(await present()).toEqual(["alice online", "bob online"]);
  expect(seen(alice, "presence").at(-1)).toMatchObject({ userId: "bob", status: "online" });
});

test("[contract 8] a clean close ends presence at once, but only with the last socket of the user", async () => {
  const alice = await joined("alice");
  const [one, two] = [await joined("bob"), await joined("bob")];
  pass(1);
  one.events.closed(1000);
  pass(0.25);
  expect(await present()).toEqual(["alice online", "bob online"]);
  two.events.closed(1000);
  pass(0.25);
  expect(await present()).toEqual(["alice online"]);
  expect(seen(alice, "presence").map(({ userId, status }) => `${userId} ${status}`)).toEqual([
    "alice online",
    "bob online",
    "bob offline",
  ]);
});

test("[contract 8] after both sockets of a user expired and came back, closing one of them changes no presence", async () => {
  const alice = await joined("alice");
  const [one, two] = [await joined("bob"), await joined("bob")];
  pass(44);
  alice.events.pong?.();
  pass(2);
  expect(await present()).toEqual(["alice online"]);
  await one.say("ping");
  await two.say("ping");
  pass(1);
  expect(await present()).toEqual(["alice online", "bob online"]);
  const before = seen(alice, "presence").length;
  one.events.closed(1000);
  pass(1);
  await two.say("ping");
  pass(1);
  expect(seen(alice, "presence")).toHaveLength(before);
  two.events.closed(1000);
  pass(0.25);
  expect(await present()).toEqual(["alice online"]);
});

test("[contract 8] a user who expired and then disconnected is announced again on return", async () => {
  const alice = await joined("alice");
  const bob = await joined("bob");
  pass(44);
  alice.events.pong?.();
  pass(2);
  bob.events.closed(1006);
  pass(1);
  expect(await present()).toEqual(["alice online"]);
  const back = await joined("bob");
  pass(0.25);
  expect(await present()).toEqual(["alice online", "bob online"]);
  expect(seen(alice, "presence").map(({ userId, status }) => `${userId} ${status}`)).toEqual([
    "alice online",
    "bob online",
    "bob offline",
    "bob online",
  ]);
  // All users expire, then disconnect: no entry is left.
  pass(46);
  expect(network.chatSockets.hub.presence.size).toBe(1);
  for (const one of [alice, back]) one.events.closed(1006);
  pass(0.25);
  expect(network.chatSockets.hub.presence.size).toBe(0);
});

test("[contract 8] a user with a broken connection stays present until the TTL, and a return before it is not announced", async () => {
  const alice = await joined("alice");
  const bob = await joined("bob");
  pass(1);
  const before = seen(alice, "presence").length;
  bob.events.closed(1006);
  pass(40);
  alice.events.pong?.();
  await joined("bob");
  pass(40);
  expect(seen(alice, "presence")).toHaveLength(before);
  alice.events.pong?.();
  pass(6);
  expect(seen(alice, "presence").at(-1)).toMatchObject({ userId: "bob", status: "offline" });
});

test("[contract 8] a user who leaves and returns between two sweeps is not announced", async () => {
  const alice = await joined("alice");
  let bob = await joined("bob");
  pass(1);
  const before = seen(alice, "presence").length;
  for (let i = 0; i < 5; i += 1) {
    bob.events.closed(1000);
    bob = await joined("bob");
  }
  pass(1);
  expect(seen(alice, "presence")).toHaveLength(before);
  expect(await present()).toEqual(["alice online", "bob online"]);
});

test("[contract 8] presence.set reaches the members who have the conversation open", async () => {
  const alice = await joined("alice");
  const bob = await joined("bob");
  pass(1);
  await bob.say("presence.set", { status: "away" });
  pass(0.25);
  expect(seen(alice, "presence").at(-1)).toMatchObject({ userId: "bob", status: "away" });
  expect(await present()).toEqual(["alice online", "bob away"]);
  expect(await bob.say("presence.set", { status: "offline" })).toMatchObject({
    type: "error",
    code: "VALIDATION_FAILED",
  });
});

test("[contract 8] in a large conversation presence changes are not pushed, but REST lists them", async () => {
  const users = Array.from({ length: 205 }, (_, i) => `u${i}`);
  await chat.room("crowd", users);
  const fakes: Fake[] = [];
  for (const user of users) {
    const fake = await network.connect(user);
    const ack = await fake.say("room.join", { room: "crowd" });
    expect((ack.presence as unknown[]).length).toBeLessThanOrEqual(100);
    fakes.push(fake);
  }
  expect((await fakes[0]?.say("room.join", { room: "crowd" }))?.presenceCount).toBe(205);
  pass(0.25);
  const before = fakes.map((fake) => seen(fake, "presence").length);
  fakes[0]?.events.closed(1000);
  pass(0.25);
  expect(fakes.slice(1).map((fake) => seen(fake, "presence").length)).toEqual(before.slice(1));
  const listed = await chat.ask(chat.key, "GET", "/v1/chat/conversations/crowd/presence?limit=200");
  expect([listed.body.length, listed.headers.get("link")]).toEqual([200, expect.stringContaining("next")]);
}, 20_000);

test("[8] typing expires after CHAT_TYPING_TTL_SECONDS unless it is renewed", async () => {
  const [alice, bob] = [await joined("alice"), await joined("bob")];
  const typing = async () =>
    (await chat.ask(await chat.token("alice"), "GET", "/v1/chat/conversations/general/typing")).body.map(
      ({ userId }: Body) => userId,
    );
  await bob.say("typing.start", { room: "general" });
  expect(seen(alice, "typing.started")).toHaveLength(1);
  expect(await typing()).toEqual(["bob"]);
  pass(2);
  await bob.say("typing.start", { room: "general" });
  // Others already know that he is typing, so they are not notified again.
  expect(seen(alice, "typing.started")).toHaveLength(1);
  pass(6.75);
  expect([await typing(), seen(alice, "typing.stopped").length]).toEqual([["bob"], 0]);
  pass(0.25);
  expect([await typing(), seen(alice, "typing.stopped").length]).toEqual([[], 1]);
});

test("[contract 8] typing ends with typing.stop, with the message, and with the socket", async () => {
  const [alice, bob] = [await joined("alice"), await joined("bob")];
  const start = () => bob.say("typing.start", { room: "general" });
  await start();
  await bob.say("typing.stop", { room: "general" });
  expect(seen(alice, "typing.stopped")).toHaveLength(1);
  await start();
  await bob.say("message.send", { room: "general", text: "there" });
  expect(seen(alice, "typing.stopped")).toHaveLength(2);
  await start();
  bob.events.closed(1006);
  expect(seen(alice, "typing.stopped")).toHaveLength(3);
});

test("[contract 8] the client is notified 60 s before its token expires, and the socket closes with 4440 at expiry", async () => {
  const alice = await joined("alice", { ttlSeconds: 120 });
  pass(59.75);
  expect(seen(alice, "token.expiring")).toEqual([]);
  pass(0.25);
  expect(seen(alice, "token.expiring")).toEqual([{ type: "token.expiring", expiresAt: "2026-03-01T12:02:00.000Z" }]);
  pass(59.75);
  expect([alice.socket.closed, seen(alice, "token.expiring").length]).toEqual([null, 1]);
  pass(0.25);
  expect(alice.socket.closed).toBe(4440);
});

test("[contract 8] token.refresh accepts a new token of the same user and project only", async () => {
  const alice = await joined("alice", { ttlSeconds: 60 });
  await chat.room("second", ["alice"]);
  await alice.say("room.join", { room: "second" });
  pass(30);
  for (const token of ["nonsense", await chat.token("bob")]) {
    const refused = await alice.say("token.refresh", { token }).catch(() => null);
    await Bun.sleep(1);
    expect(refused ?? alice.socket.frames.at(-1)).toMatchObject({ type: "error" });
  }
  const token = await chat.token("alice", { ttlSeconds: 600, scopes: ["chat:read"], conversations: ["general"] });
  const text = JSON.stringify({ type: "token.refresh", id: "refresh", token });
  alice.events.received(text, text.length);
  for (let i = 0; i < 100 && !alice.socket.frames.some(({ id }) => id === "refresh"); i += 1) await Bun.sleep(1);
  expect(alice.socket.frames.find(({ id }) => id === "refresh")).toMatchObject({
    type: "ack",
    scopes: ["chat:read"],
    expiresAt: "2026-03-01T12:10:30.000Z",
  });
  pass(60);
  expect(alice.socket.closed).toBeNull();
  expect(await alice.say("message.send", { room: "general", text: "x" })).toMatchObject({ code: "PERMISSION_DENIED" });
  expect(await alice.say("message.send", { room: "second", text: "x" })).toMatchObject({
    code: "CONVERSATION_NOT_FOUND",
  });
  expect(alice.socket.topics.size).toBe(1);
});

test("[contract 8] silent sockets are pinged every heartbeat, active ones are not", async () => {
  const [alice, bob] = [await joined("alice"), await joined("bob")];
  expect(alice.socket.frames[0]).toMatchObject({ type: "connected", heartbeatSeconds: 15 });
  for (let i = 0; i < 30; i += 1) {
    pass(1);
    await bob.say("ping");
  }
  expect([alice.socket.pings, bob.socket.pings]).toEqual([2, 0]);
  const quick = await chatRest({ CHAT_PRESENCE_TTL_SECONDS: 3 });
  const fake = await fakeNetwork(quick).connect("x");
  expect(fake.socket.frames[0]).toMatchObject({ heartbeatSeconds: 1 });
  await quick.close();
});

test("[contract 8] only a reader with more than 1 MiB unread is closed with 4408", async () => {
  const [alice, bob] = [await joined("alice"), await joined("bob")];
  bob.socket.bufferedBytes = 1024 * 1024;
  network.chatSockets.sweep();
  expect(bob.socket.closed).toBeNull();
  bob.socket.bufferedBytes += 1;
  network.chatSockets.sweep();
  expect([alice.socket.closed, bob.socket.closed]).toEqual([null, 4408]);
  // Later events are not sent to this socket.
  const before = bob.socket.frames.length;
  await alice.say("message.send", { room: "general", text: "x" });
  expect(bob.socket.frames).toHaveLength(before);
});

test("[contract 8] a slow reader is closed while much is published, before the next sweep", async () => {
  const [alice, bob] = [await joined("alice"), await joined("bob")];
  bob.socket.bufferedBytes = 2 * 1024 * 1024;
  for (let i = 0; i < 30 && bob.socket.closed === null; i += 1) {
    await chat.send(chat.key, "general", {
      text: "x".repeat(4000),
      senderId: "alice",
      metadata: { k: "y".repeat(4000) },
    });
  }
  expect([alice.socket.closed, bob.socket.closed]).toEqual([null, 4408]);
});

test("[contract 2] revoking a token and archiving the project close its sockets with 4401", async () => {
  const [alice, bob] = [await joined("alice"), await joined("bob")];
  const caller = [...network.chatSockets.hub.sockets].find(({ userId }) => userId === "alice")?.caller;
  await chat.ask(chat.key, "DELETE", `/v1/chat/tokens/${caller?.tokenId}`);
  expect([alice.socket.closed, bob.socket.closed]).toEqual([4401, null]);
  const owner = await chat.server.session({ projectId: chat.projectId, role: "OWNER" });
  await chat.ask(owner.token, "DELETE", `/v1/projects/${chat.projectId}`);
  expect(bob.socket.closed).toBe(4401);
});
