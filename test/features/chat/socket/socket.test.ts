import { afterAll, expect, test } from "bun:test";
import type { Frame } from "../client.ts";
import { type Body, chatWorld } from "../world.ts";

const world = await chatWorld({
  CHAT_CONNECTION_RATE_LIMIT: 10_000,
  CHAT_SEND_RATE_LIMIT: 10_000,
  CHAT_FRAME_RATE_LIMIT: 100_000,
  CHAT_SUBSCRIBE_RATE_LIMIT: 10_000,
});
afterAll(world.close);
const { call, key } = world;
const messageOf = (frame: Frame): Body => frame.message;

test("[contract 8] a new socket receives its user, scopes and limits", async () => {
  const client = await world.client("alice", { scopes: ["chat:read"] });
  expect(client.frames).toEqual([
    {
      type: "connected",
      connectionId: expect.any(String),
      userId: "alice",
      scopes: ["chat:read"],
      expiresAt: expect.any(String),
      heartbeatSeconds: 15,
      serverTime: expect.any(String),
      limits: {
        maxFrameBytes: 65_536,
        maxTextLength: 4000,
        maxMetadataBytes: 4096,
        maxSubscriptions: 20,
        framesPerWindow: 100_000,
        windowSeconds: 60,
      },
    },
  ]);
});

test("[contract 8] room.join returns the conversation, the role, the position of the log and the presence", async () => {
  const id = await world.room("joinable", ["alice", "bob"]);
  const alice = await world.joined("alice", id);
  const bob = await world.client("bob");
  const ack = await bob.ask("room.join", { room: "joinable" });
  expect(ack).toMatchObject({
    type: "ack",
    room: { id, name: "joinable", memberCount: 2, lastSeq: 2 },
    role: "MEMBER",
    seq: 2,
    epoch: expect.any(String),
    recovered: true,
    events: [],
    presenceCount: 2,
    typing: [],
    readState: { userId: "bob", lastReadSeq: null, unreadCount: 0 },
  });
  expect((ack.presence as Body[]).map(({ userId }) => userId)).toEqual(["alice", "bob"]);
  expect((await alice.ask("room.leave", { room: id })).type).toBe("ack");
  expect(await alice.ask("room.leave", { room: id })).toMatchObject({ type: "error", code: "NOT_IN_ROOM" });
});

test("[contract 8] every client frame gets exactly one response, and every change reaches all sockets including the sender", async () => {
  const id = await world.room("frames", ["alice", "bob"]);
  const alice = await world.joined("alice", id);
  const bob = await world.joined("bob", id);
  const sent = await alice.ask("message.send", {
    room: "frames",
    text: "one",
    clientMessageId: "c1",
    metadata: { a: 1 },
    clientSentAt: 5,
  });
  expect(sent).toMatchObject({ type: "ack", deduplicated: false, message: { text: "one", senderId: "alice", seq: 3 } });
  const messageId = messageOf(sent).id;
  const retry = await alice.ask("message.send", { room: id, text: "one", clientMessageId: "c1" });
  expect(retry).toMatchObject({ deduplicated: true, message: messageOf(sent) });
  expect(await alice.ask("message.update", { messageId, text: "two" })).toMatchObject({
    message: { text: "two", edited: true },
  });
  expect((await bob.ask("reaction.add", { messageId, emoji: "👍" })).type).toBe("ack");
  expect((await bob.ask("reaction.add", { messageId, emoji: "👍" })).type).toBe("ack");
  expect((await bob.ask("reaction.remove", { messageId, emoji: "👍" })).type).toBe("ack");
  expect(await bob.ask("read.mark", { messageId })).toMatchObject({
    readState: { lastReadMessageId: messageId, unreadCount: 0 },
  });
  expect(await bob.ask("message.send", { room: id, text: "re", replyTo: messageId })).toMatchObject({
    message: { threadRootId: messageId },
  });
  expect(await alice.ask("message.delete", { messageId })).toMatchObject({ message: { deleted: true, text: null } });
  expect(await alice.ask("ping")).toEqual({ type: "pong", id: expect.any(String) });
  await bob.settled();

  const durable = (frames: Frame[]) =>
    frames.filter(({ seq, type }) => seq !== undefined && type !== "ack" && type !== "read");
  for (const client of [alice, bob]) {
    expect(durable(client.frames).map(({ seq, type }) => `${seq} ${type}`)).toEqual([
      "3 message",
      "4 message.updated",
      "5 reaction.added",
      "6 reaction.removed",
      "7 message",
      "8 message.deleted",
    ]);
    expect(client.ofType("read")).toEqual([
      { type: "read", conversationId: id, userId: "bob", messageId, seq: 3, at: expect.any(String) },
    ]);
  }
  for (const client of [alice, bob]) {
    const ids = client.frames.flatMap(({ id: answered }) => answered ?? []);
    expect(new Set(ids).size).toBe(ids.length);
  }
});

test("[contract 8] changes made by REST reach the sockets", async () => {
  const id = await world.room("rest", ["alice"]);
  const alice = await world.joined("alice", id);
  const { body } = await call("POST", "/v1/chat/conversations/rest/messages", key, { text: "hi", senderId: "bob" });
  await call("PATCH", `/v1/chat/messages/${body.id}`, key, { text: "hey" });
  await call("POST", `/v1/chat/messages/${body.id}/reactions`, key, { emoji: "x", userId: "bob" });
  await call("POST", "/v1/chat/conversations/rest/members", key, { userId: "carl" });
  await call("PATCH", "/v1/chat/conversations/rest/members/carl", key, { role: "ADMIN" });
  await call("DELETE", "/v1/chat/conversations/rest/members/carl", key);
  await call("PATCH", "/v1/chat/conversations/rest", key, { name: "rest2" });
  await call("DELETE", `/v1/chat/messages/${body.id}`, key);
  await alice.settled();
  const pushed = alice.frames.filter(({ seq, type }) => seq !== undefined && type !== "ack");
  const replayed = (await call("GET", "/v1/chat/conversations/rest2/events?after=1", key)).body.data;
  expect(pushed.map(({ seq, type }) => `${seq} ${type}`)).toEqual(
    replayed.map(({ seq, type }: Body) => `${seq} ${type}`),
  );
  expect(pushed.map(({ type }) => type)).toEqual([
    "message",
    "message.updated",
    "reaction.added",
    "member.joined",
    "member.updated",
    "member.left",
    "conversation.updated",
    "message.deleted",
  ]);
  // A message that was deleted since is not in the replay, although it was pushed before.
  expect(JSON.stringify(pushed)).toContain("hey");
  expect(JSON.stringify(replayed)).not.toContain("hey");
});

test("[contract 8] a resume replays the missed events in order, or reports too many events, another epoch or a future seq", async () => {
  const id = await world.room("resume", ["alice"]);
  const post = (text: string) => call("POST", "/v1/chat/conversations/resume/messages", key, { text });
  const first = await world.client("alice");
  const { epoch } = await first.ask("room.join", { room: id });
  await first.close();
  for (let i = 0; i < 3; i += 1) await post(`m${i}`);
  const again = await world.client("alice");
  const join = (fields: object) => again.ask("room.join", { room: id, ...fields });
  const resumed = await join({ since: 1, epoch });
  expect(resumed).toMatchObject({ recovered: true, seq: 4 });
  expect((resumed.events as Body[]).map(({ seq, message }) => `${seq} ${message.text}`)).toEqual([
    "2 m0",
    "3 m1",
    "4 m2",
  ]);
  expect(await join({ since: 4, epoch })).toMatchObject({ recovered: true, events: [] });
  expect(await join({ since: 3 })).toMatchObject({ recovered: true, events: [{ seq: 4 }] });
  expect(await join({ since: 5, epoch })).toMatchObject({ recovered: false, events: [], seq: 4 });
  expect(await join({ since: 1, epoch: "another" })).toMatchObject({ recovered: false, events: [] });
  expect(await join({})).toMatchObject({ recovered: true, events: [] });
  expect(await join({ since: -1 })).toMatchObject({ type: "error", code: "VALIDATION_FAILED" });

  for (let i = 4; i < 301; i += 1) await post(`m${i}`);
  const most = await join({ since: 1, epoch });
  expect([most.recovered, (most.events as Body[]).length, most.seq]).toEqual([true, 300, 301]);
  await post("one more");
  expect(await join({ since: 1, epoch })).toMatchObject({ recovered: false, events: [], seq: 302 });
}, 30_000);

test("[contract 8] a replay of too many bytes is not sent, like a replay of too many events", async () => {
  const id = await world.room("heavy", ["alice"]);
  for (let i = 0; i < 40; i += 1) {
    await call("POST", "/v1/chat/conversations/heavy/messages", key, {
      text: "😀".repeat(4000),
      metadata: { k: "x".repeat(4000) },
    });
  }
  const alice = await world.client("alice");
  expect(await alice.ask("room.join", { room: id, since: 0 })).toMatchObject({ recovered: true });
  for (let i = 0; i < 20; i += 1) {
    await call("POST", "/v1/chat/conversations/heavy/messages", key, {
      text: "😀".repeat(4000),
      metadata: { k: "x".repeat(4000) },
    });
  }
  expect(await alice.ask("room.join", { room: id, since: 0 })).toMatchObject({ recovered: false, events: [] });
});

test("[contract 13] frames that name an unjoined or unknown conversation get the matching error", async () => {
  const id = await world.room("outside", ["alice"]);
  await world.room("foreign", ["bob"]);
  const { body: message } = await call("POST", `/v1/chat/conversations/${id}/messages`, key, { text: "x" });
  const { body: theirs } = await call("POST", "/v1/chat/conversations/foreign/messages", key, { text: "x" });
  const alice = await world.client("alice");
  const refused = async (type: string, fields: object) => (await alice.ask(type, { ...fields })).code;
  for (const type of ["message.send", "typing.start", "typing.stop", "room.leave"]) {
    expect([type, await refused(type, { room: id, text: "x" })]).toEqual([type, "NOT_IN_ROOM"]);
    expect([type, await refused(type, { room: "foreign", text: "x" })]).toEqual([type, "CONVERSATION_NOT_FOUND"]);
  }
  for (const type of ["message.update", "message.delete", "reaction.add", "reaction.remove", "read.mark"]) {
    expect([type, await refused(type, { messageId: message.id, text: "x", emoji: "x" })]).toEqual([
      type,
      "NOT_IN_ROOM",
    ]);
    expect([type, await refused(type, { messageId: theirs.id, text: "x", emoji: "x" })]).toEqual([
      type,
      "MESSAGE_NOT_FOUND",
    ]);
  }
  expect(await refused("room.join", { room: "foreign" })).toBe("CONVERSATION_NOT_FOUND");
  expect(await refused("message.shout", {})).toBe("UNKNOWN_TYPE");
  await alice.ask("room.join", { room: id });
  expect(await refused("message.send", { room: id })).toBe("VALIDATION_FAILED");
  expect(await refused("message.send", { room: id, text: 5 })).toBe("VALIDATION_FAILED");
  expect(await refused("message.send", { room: id, text: "x", messageType: "system" })).toBe("PERMISSION_DENIED");
  expect(await refused("message.send", { room: id, text: "x".repeat(4001) })).toBe("VALIDATION_FAILED");
  expect(await refused("message.delete", { messageId: message.id })).toBe("PERMISSION_DENIED");
});

test("[8] a connection joins at most CHAT_MAX_ROOM_SUBSCRIPTIONS conversations", async () => {
  const alice = await world.client("alice");
  for (let i = 0; i < 21; i += 1) {
    await world.room(`many-${i}`, ["alice"]);
    const answer = await alice.ask("room.join", { room: `many-${i}` });
    expect(answer.code ?? answer.type).toBe(i < 20 ? "ack" : "TOO_MANY_SUBSCRIPTIONS");
  }
  expect((await alice.ask("room.join", { room: "many-3" })).type).toBe("ack");
  await alice.ask("room.leave", { room: "many-0" });
  expect((await alice.ask("room.join", { room: "many-20" })).type).toBe("ack");
});

test("[contract 4] a removed or banned member receives that event and no later one", async () => {
  const id = await world.room("leavers", ["alice", "bob"]);
  const alice = await world.joined("alice", id);
  const bob = await world.joined("bob", id);
  await call("DELETE", "/v1/chat/conversations/leavers/members/bob", key);
  await call("POST", "/v1/chat/conversations/leavers/messages", key, { text: "without him" });
  await bob.settled();
  await alice.settled();
  expect(bob.ofType("member.left")).toHaveLength(1);
  expect(JSON.stringify(bob.frames)).not.toContain("without him");
  expect(JSON.stringify(alice.frames)).toContain("without him");
  expect(await bob.ask("message.send", { room: id, text: "x" })).toMatchObject({ code: "CONVERSATION_NOT_FOUND" });

  await call("POST", "/v1/chat/conversations/leavers/members", key, { userId: "bob" });
  expect(await bob.ask("room.join", { room: id, since: 2 })).toMatchObject({ recovered: true, events: [{}, {}, {}] });
  await call("PATCH", "/v1/chat/conversations/leavers/members/bob", key, { status: "BANNED" });
  await bob.settled();
  expect(bob.ofType("member.left").at(-1)).toMatchObject({ userId: "bob", member: { status: "BANNED" } });
  expect(await bob.ask("room.join", { room: id })).toMatchObject({ code: "BANNED" });
});

test("[contract 13] stream.updated reaches the sockets that have the stream's conversation open", async () => {
  const id = await world.room("stream", ["alice"]);
  const alice = await world.joined("alice", id);
  const { bus, write } = world.server.runtime;
  const conversation = world.server.services.chat.conversations.resolve(
    { projectId: world.projectId, environment: "DEVELOPMENT" },
    id,
  );
  const signal = {
    type: "stream.updated" as const,
    conversationId: id,
    streamId: "stream_x",
    status: "LIVE",
    viewerCount: 3,
  };
  await write((unit) => bus.publish(unit, "chatSignal", { conversationId: conversation?.id ?? "", signal }));
  await alice.settled();
  expect(alice.ofType("stream.updated")).toEqual([signal]);
});
