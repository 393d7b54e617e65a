import { afterAll, beforeEach, expect, test } from "bun:test";
import { WEBHOOK_EVENT_TYPES } from "../../src/protocol/webhook-events.ts";
import { hookedEndpoint } from "../features/webhooks/hooked-project.ts";
import { testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);
const { key, projectId, receiver } = await hookedEndpoint(server);
const { runDue } = server.services.webhookDispatcher;

const call = async (method: string, path: string, body?: unknown, credential = key) => {
  const reply = await server.call(method, path, { key: credential, body });
  if (reply.status >= 400) throw new Error(`${method} ${path}: ${reply.text}`);
  return reply.body as Record<string, string>;
};
/** The events since the last call: type and data, in the order of their causes. */
async function arrived(): Promise<[string, Record<string, unknown>][]> {
  await runDue();
  const events = receiver.received.splice(0).map(({ event }) => event);
  for (const event of events) expect([event.projectId, event.environment]).toEqual([projectId, "DEVELOPMENT"]);
  seen.push(...events.map(({ id }) => id));
  for (const { type } of events) seenTypes.add(type);
  // Deliveries are not ordered; of one conversation, `seq` is.
  return events
    .map(({ type, data }) => [type, data] as [string, Record<string, unknown>])
    .sort(([a, { seq: s }], [b, { seq: t }]) => Number(s ?? -1) - Number(t ?? -1) || a.localeCompare(b));
}
const types = async () => (await arrived()).map(([type]) => type).sort();
const seen: string[] = [];
const seenTypes = new Set<string>();
/** The tests of the types that this file does not send. */
const SENT_IN: Partial<Record<(typeof WEBHOOK_EVENT_TYPES)[number], string>> = {
  "call.started": "features/sessions/calls.test.ts",
  "call.participant_joined": "features/sessions/calls.test.ts",
  "call.participant_left": "features/sessions/calls.test.ts",
  "call.ended": "features/sessions/calls.test.ts",
  "participant.moved": "gateways/signaling/move.test.ts",
  "lobby.knocked": "gateways/signaling/room-state.test.ts",
  "recording.started": "features/recordings/recordings.test.ts",
  "recording.ready": "features/recordings/recordings.test.ts",
  "recording.failed": "features/recordings/recordings.test.ts",
};
const at = () => new Date(server.clock.now()).toISOString();

beforeEach(async () => {
  server.clock.advance(60_000);
  await arrived();
});

async function stream() {
  const { id = "", conversationId = "" } = await call("POST", "/v1/live-streams", {
    title: "Launch",
    hostIdentity: "host",
  });
  return { id, conversationId };
}

async function conversation(name: string, members: string[] = []) {
  const { id = "" } = await call("POST", "/v1/chat/conversations", {
    name,
    members: members.map((userId) => ({ userId })),
  });
  return id;
}

test("[6] live_stream.created is sent once with the title, and its conversation as room.created", async () => {
  const { id, conversationId } = await stream();
  const events = await arrived();
  expect(events.map(([type]) => type).sort()).toEqual(["live_stream.created", "participant.joined", "room.created"]);
  expect(Object.fromEntries(events)["live_stream.created"]).toEqual({
    streamId: id,
    title: "Launch",
    visibility: "PUBLIC",
    hostIdentity: "host",
    createdAt: at(),
  });
  expect(Object.fromEntries(events)["participant.joined"]).toMatchObject({ conversationId, userId: "host" });
});

test("[6] live_stream.started and .ended are sent once each, only by start and end", async () => {
  const { id } = await stream();
  await arrived();
  await server.call("POST", `/v1/live-streams/${id}/end`, { key });
  await call("PATCH", `/v1/live-streams/${id}`, { title: "Other" });
  expect(await arrived()).toEqual([]);
  await call("POST", `/v1/live-streams/${id}/start`);
  await server.call("POST", `/v1/live-streams/${id}/start`, { key });
  expect(await arrived()).toEqual([["live_stream.started", { streamId: id, startedAt: at() }]]);
  server.clock.advance(90_500);
  await call("POST", `/v1/live-streams/${id}/end`);
  await server.call("POST", `/v1/live-streams/${id}/end`, { key });
  expect(await arrived()).toEqual([["live_stream.ended", { streamId: id, endedAt: at(), durationMs: 90_500 }]]);
});

test("[6] live_stream.host_joined is sent when credentials are minted, .host_left when a co-host is removed", async () => {
  const { id, conversationId } = await stream();
  await arrived();
  await call("POST", `/v1/live-streams/${id}/hosts`, { identity: "host" });
  expect(await arrived()).toEqual([
    ["live_stream.host_joined", { streamId: id, identity: "host", role: "HOST", at: at() }],
  ]);

  await call("POST", `/v1/live-streams/${id}/hosts`, { identity: "co" });
  expect(await arrived()).toEqual([
    ["live_stream.host_joined", { streamId: id, identity: "co", role: "CO_HOST", at: at() }],
    ["participant.joined", { conversationId, userId: "co", role: "MODERATOR", at: at(), seq: expect.any(Number) }],
  ]);
  await call("DELETE", `/v1/live-streams/${id}/hosts/co`);
  await server.call("DELETE", `/v1/live-streams/${id}/hosts/host`, { key });
  expect(await arrived()).toEqual([
    ["live_stream.host_left", { streamId: id, identity: "co", at: at() }],
    ["participant.left", { conversationId, userId: "co", role: "MODERATOR", at: at(), seq: expect.any(Number) }],
  ]);
});

test("[6] live_stream.viewer_joined is sent once per identity until it leaves, .viewer_left only by leave", async () => {
  const { id } = await stream();
  await arrived();
  const mint = () => call("POST", `/v1/live-streams/${id}/viewer-tokens`, { identity: "v" });
  const leave = () => server.call("POST", `/v1/live-streams/${id}/leave`, { key, body: { identity: "v" } });
  await leave();
  expect(await arrived()).toEqual([]);
  await mint();
  expect(await arrived()).toContainEqual(["live_stream.viewer_joined", { streamId: id, identity: "v", at: at() }]);
  await mint();
  expect(await arrived()).toEqual([]);
  await leave();
  await leave();
  expect(await arrived()).toEqual([["live_stream.viewer_left", { streamId: id, identity: "v", at: at() }]]);
  await mint();
  expect(await types()).toEqual(["live_stream.viewer_joined"]);
  // Removal is no leave: the backend knows what it did.
  await call("DELETE", `/v1/live-streams/${id}/viewers/v`);
  expect(await types()).toEqual(["participant.left"]);
});

test("[6] message.created and .updated contain the message, message.deleted does not contain its text", async () => {
  const room = await conversation("talk", ["ann"]);
  await arrived();
  const path = `/v1/chat/conversations/${room}/messages`;
  const sent = await call("POST", path, {
    text: "hello",
    senderId: "ann",
    clientMessageId: "once",
    metadata: { a: 1 },
  });
  await call("POST", path, { text: "hello", senderId: "ann", clientMessageId: "once" });
  const created = await arrived();
  expect(created).toEqual([
    ["message.created", { seq: Number(sent.seq), message: expect.objectContaining({ id: sent.id, text: "hello" }) }],
  ]);
  await call("PATCH", `/v1/chat/messages/${sent.id}`, { text: "hello!" });
  expect(await arrived()).toEqual([
    [
      "message.updated",
      { seq: Number(sent.seq) + 1, message: expect.objectContaining({ text: "hello!", edited: true }) },
    ],
  ]);
  await call("DELETE", `/v1/chat/messages/${sent.id}`);
  await call("DELETE", `/v1/chat/messages/${sent.id}`);
  expect(await arrived()).toEqual([
    [
      "message.deleted",
      {
        messageId: sent.id,
        conversationId: room,
        senderId: "ann",
        deletedAt: at(),
        deletedBy: null,
        seq: Number(sent.seq) + 2,
      },
    ],
  ]);
});

test("[6] reaction.added and .removed are sent once each, only for a change", async () => {
  const room = await conversation("reactions", ["ann"]);
  const { id } = await call("POST", `/v1/chat/conversations/${room}/messages`, { text: "x", senderId: "ann" });
  await arrived();
  const reactions = `/v1/chat/messages/${id}/reactions`;
  await call("POST", reactions, { emoji: "👍", userId: "ann" });
  await call("POST", reactions, { emoji: "👍", userId: "ann" });
  const data = { messageId: id, conversationId: room, userId: "ann", emoji: "👍", at: at(), seq: expect.any(Number) };
  expect(await arrived()).toEqual([["reaction.added", data]]);
  const remove = `${reactions}/${encodeURIComponent("👍")}?userId=ann`;
  await call("DELETE", remove);
  await call("DELETE", remove);
  expect(await arrived()).toEqual([["reaction.removed", data]]);
});

test("[6] room.created, participant.joined and .left are sent for a conversation and its members", async () => {
  const room = await conversation("members");
  expect(await arrived()).toEqual([
    [
      "room.created",
      {
        conversationId: room,
        name: "members",
        type: "CHANNEL",
        roomId: null,
        createdAt: at(),
        seq: expect.any(Number),
      },
    ],
  ]);
  const members = `/v1/chat/conversations/${room}/members`;
  await call("POST", members, { userId: "ann", role: "MODERATOR" });
  await call("POST", members, { userId: "ann", role: "MODERATOR" });
  const data = { conversationId: room, userId: "ann", role: "MODERATOR", at: at(), seq: expect.any(Number) };
  expect(await arrived()).toEqual([["participant.joined", data]]);
  await call("DELETE", `${members}/ann`);
  await server.call("DELETE", `${members}/ann`, { key });
  expect(await arrived()).toEqual([["participant.left", data]]);
});

test("[6] an RTC room without a conversation, its tokens and its end cause no webhook events", async () => {
  const { id } = await call("POST", "/v1/rooms", { name: "plain" });
  await call("POST", `/v1/rooms/${id}/rtc-tokens`, { participantIdentity: "p" });
  await call("DELETE", `/v1/rooms/${id}`);
  expect(await arrived()).toEqual([]);
});

test("[6] message.reported is sent once per reporter and message", async () => {
  const conversationId = await conversation("reported", ["ada", "bob"]);
  const { id: messageId = "" } = await call("POST", `/v1/chat/conversations/${conversationId}/messages`, {
    senderId: "ada",
    text: "spam",
  });
  await arrived();
  const report = { userId: "bob", reason: "spam" };
  const { id: reportId } = await call("POST", `/v1/chat/messages/${messageId}/reports`, report);
  await call("POST", `/v1/chat/messages/${messageId}/reports`, report);
  const data = { reportId, messageId, conversationId, senderId: "ada", reporterId: "bob", reason: "spam", at: at() };
  expect(await arrived()).toEqual([["message.reported", data]]);
});

test("[6] call.ringing and .ring_ended are sent once each, with the ring", async () => {
  const { id: roomId = "" } = await call("POST", "/v1/rooms", { name: "rung" });
  const members = [{ userId: "ada" }, { userId: "bob" }];
  const { id } = await call("POST", "/v1/chat/conversations", { name: "rung", roomId, members });
  await arrived();
  const ring = await call("POST", `/v1/chat/conversations/${id}/rings`, { userId: "ada" });
  expect(await arrived()).toEqual([["call.ringing", { ring }]]);
  const ended = await call("POST", `/v1/chat/rings/${ring.id}/answer`, { userId: "bob" });
  expect(ended.status).toBe("ANSWERED");
  expect(await arrived()).toEqual([["call.ring_ended", { ring: ended }]]);
});

test("[6] a deleted message's content is removed from queued, stored and redelivered events", async () => {
  const hooked = await hookedEndpoint(server);
  const as = (method: string, path: string, body?: unknown) => server.call(method, path, { key: hooked.key, body });
  await as("POST", "/v1/chat/conversations", { name: "secret" });
  await runDue();
  hooked.receiver.reply = () => new Response(null, { status: 500 });
  const body = { text: "the password is swordfish", metadata: { also: "swordfish" } };
  const { id } = (await as("POST", "/v1/chat/conversations/secret/messages", body)).body;
  await runDue();
  expect(hooked.receiver.received.at(-1)?.body).toContain("swordfish");
  await as("DELETE", `/v1/chat/messages/${id}`);
  hooked.receiver.received.length = 0;
  hooked.receiver.reply = () => new Response();
  server.clock.advance(11_000);
  await runDue();
  const created = hooked.receiver.received.find(({ event }) => event.type === "message.created");
  expect(created?.event.data.message).toMatchObject({ id, text: null, metadata: null, deleted: true });
  const deliveries = await hooked.deliveries(hooked.id);
  for (const { id: deliveryId } of deliveries) {
    expect((await hooked.call("GET", `/${hooked.id}/deliveries/${deliveryId}`)).text).not.toContain("swordfish");
  }
  expect(JSON.stringify(hooked.receiver.received.map(({ body }) => body))).not.toContain("swordfish");
});

test("[6] every event has its own id, and a test sends each type of the catalogue", () => {
  expect(new Set(seen).size).toBe(seen.length);
  const missing = WEBHOOK_EVENT_TYPES.filter((type) => !seenTypes.has(type) && SENT_IN[type] === undefined);
  expect(missing, "no test sends these: add one here, or name its file in SENT_IN").toEqual([]);
});
