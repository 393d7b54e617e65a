import { afterAll, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import type { WebhookEvent } from "@livekit/protocol";
import { createCalls } from "../../../src/features/sessions/calls/calls.ts";
import { LIVEKIT_EVENT_TYPES } from "../../../src/protocol/webhook-events.ts";
import { failing, type Receiver, startReceiver } from "../../features/webhooks/receiver.ts";
import { rtcServer, settled } from "../../harness/rtc.ts";
import { livekitPackages } from "./harness/packages.ts";

type ReceiverOfTheirs = {
  receive(body: string, authorization: string, skipAuth: boolean, clockTolerance: number): Promise<WebhookEvent>;
};

/** The server's clock is not the machine's, by which their verifier judges the expiry of the token. */
const TOLERANCE_SECONDS = 10 ** 9;

const server = await rtcServer();
const { key, projectId, node } = server;
const { webhookDispatcher, apiKeys } = server.services;
const keyRow = apiKeys.list(projectId, undefined, "￿", 1)[0];
if (!keyRow) throw new Error("the project has no key");
const secret = apiKeys.signingSecret(keyRow.publicId);
const member = await server.session({ projectId, role: "DEVELOPER" });
const asMember = (method: string, path: string, body?: object) =>
  server.call(method, `/v1/projects/${projectId}/webhooks${path}`, { key: member.token, ...(body && { body }) });
const asKey = (method: string, path: string, body?: object) =>
  server.call(method, `/v1/webhooks${path}`, { key, ...(body && { body }) });

let sdk: { WebhookReceiver: new (key: string, secret: string) => ReceiverOfTheirs };
const receivers: Receiver[] = [];
beforeAll(async () => {
  sdk = await import(join(await livekitPackages(), "livekit-server-sdk"));
}, 120_000);
afterAll(async () => {
  for (const receiver of receivers) receiver.close();
  await server.close();
});

/** An endpoint in LiveKit's format; the former ones are deleted, so that each test sees its own events. */
async function endpoint(more: object = {}): Promise<Receiver & { id: string }> {
  for (const { id } of (await asKey("GET", "")).body as unknown as { id: string }[]) await asKey("DELETE", `/${id}`);
  const receiver = startReceiver();
  receivers.push(receiver);
  const { status, body } = await asKey("POST", "", { url: receiver.url, format: "livekit", ...more });
  expect([status, body.format, body.apiKeyId]).toEqual([201, "livekit", keyRow?.id]);
  return Object.assign(receiver, { id: String(body.id) });
}

/** The events as LiveKit's own package reads and verifies them. */
async function verified({ received }: Receiver): Promise<WebhookEvent[]> {
  await settled();
  await webhookDispatcher.runDue();
  const theirs = new sdk.WebhookReceiver(keyRow?.publicId ?? "", secret);
  return Promise.all(
    received.map(({ headers, body }) => {
      expect(headers.get("content-type")).toBe("application/webhook+json");
      return theirs.receive(body, headers.get("authorization") ?? "", false, TOLERANCE_SECONDS);
    }),
  );
}

const summary = (events: WebhookEvent[]) =>
  events.map(({ event, participant }) => [event, participant?.identity ?? ""]);

async function joined(roomId: string, identity: string, media = true) {
  const client = await server.joined(roomId, identity, { mint: { name: `${identity} L.`, attributes: { a: "1" } } });
  const { participantId = "" } = node.peers().find((peer) => peer.identity === identity) ?? {};
  if (media) node.connect(participantId);
  await settled();
  return { ...client, ask: client.ask, participantId };
}

const TRACK = {
  id: `trk_${crypto.randomUUID()}`,
  kind: "audio",
  source: "microphone",
  name: null,
  muted: false,
  simulcast: false,
  codec: "opus",
} as const;

test("events of a room, its participants and tracks are sent in order, and LiveKit's WebhookReceiver verifies them", async () => {
  const receiver = await endpoint();
  const roomId = await server.room("told");
  const ada = await joined(roomId, "ada");
  const of = { roomId, participantId: ada.participantId, identity: "ada" };
  node.emit({ ...of, type: "trackPublished", track: { ...TRACK, layers: [] } as never });
  await settled();
  await ada.ask("room.leave");
  await settled();
  await server.call("DELETE", `/v1/rooms/${roomId}`, { key });
  const events = await verified(receiver);
  expect(summary(events)).toEqual([
    ["room_started", ""],
    ["participant_joined", "ada"],
    ["track_published", "ada"],
    ["track_unpublished", "ada"],
    ["participant_left", "ada"],
    ["room_finished", ""],
  ]);
  const [started, arrived, published, , left, finished] = events;
  for (const { room, id, createdAt } of events) {
    expect([room?.name, room?.sid]).toEqual(["told", started?.room?.sid]);
    expect(id).toStartWith("evt_");
    expect(Number(createdAt)).toBe(Math.floor(server.clock.now() / 1000));
  }
  expect(new Set(events.map(({ id }) => id)).size).toBe(events.length);
  expect(arrived?.participant).toMatchObject({ name: "ada L.", attributes: { a: "1" }, state: 2 });
  expect(published?.track).toMatchObject({ type: 0, source: 2, mimeType: "audio/opus" });
  expect(published?.track?.sid).toStartWith("TR_");
  expect(left?.participant).toMatchObject({ name: "ada L.", sid: arrived?.participant?.sid, disconnectReason: 1 });
  expect(finished?.room?.numParticipants).toBe(0);
});

test("participant_connection_aborted is sent for a participant whose media never connected", async () => {
  const receiver = await endpoint({
    events: ["participant_joined", "participant_left", "participant_connection_aborted"],
  });
  const roomId = await server.room();
  const bob = await joined(roomId, "bob", false);
  await bob.ask("room.leave");
  expect(summary(await verified(receiver))).toEqual([["participant_connection_aborted", "bob"]]);
});

test("when a room is closed, participant_left is sent for everyone in it, then room_finished once", async () => {
  const receiver = await endpoint();
  const roomId = await server.room();
  await joined(roomId, "ada");
  await joined(roomId, "bob");
  await server.call("DELETE", `/v1/rooms/${roomId}`, { key });
  const events = await verified(receiver);
  expect(events.map(({ event }) => event)).toEqual([
    "room_started",
    "participant_joined",
    "participant_joined",
    "participant_left",
    "participant_left",
    "room_finished",
  ]);
  expect(events.at(-2)?.participant?.disconnectReason).toBe(5);
});

test("a failed delivery is repeated with the same body and a new token, and a wrong secret or body is noticed", async () => {
  const receiver = await endpoint({ events: ["room_started"] });
  receiver.reply = failing;
  await server.room();
  await verified(receiver);
  receiver.reply = () => new Response("fine");
  server.clock.advance(15_000);
  await verified(receiver);
  const [first, second] = receiver.received;
  if (!first || !second) throw new Error("it was not repeated");
  expect(receiver.received).toHaveLength(2);
  expect(second.body).toBe(first.body);
  expect(second.headers.get("authorization")).not.toBe(first.headers.get("authorization"));
  const token = second.headers.get("authorization") ?? "";
  const wrong = new sdk.WebhookReceiver(keyRow.publicId, "another secret");
  const right = new sdk.WebhookReceiver(keyRow.publicId, secret);
  await expect(wrong.receive(second.body, token, false, TOLERANCE_SECONDS)).rejects.toThrow();
  await expect(right.receive(`${second.body} `, token, false, TOLERANCE_SECONDS)).rejects.toThrow();
});

test("an endpoint gets the events of its format only, and a test event in it", async () => {
  const receiver = await endpoint();
  const own = startReceiver();
  receivers.push(own);
  await asKey("POST", "", { url: own.url });
  const roomId = await server.room();
  await (await joined(roomId, "ada")).ask("room.leave");
  await verified(receiver);
  expect(receiver.received.map(({ event }) => (event as { event?: string }).event)).toEqual([
    "room_started",
    "participant_joined",
    "participant_left",
  ]);
  expect(own.received.map(({ event }) => event.type)).toEqual([
    "call.started",
    "call.participant_joined",
    "call.participant_left",
    "call.ended",
  ]);
  expect((await asKey("POST", `/${receiver.id}/test`)).status).toBe(200);
  expect((await verified(receiver)).at(-1)?.event).toBe("webhook.test");
});

test("the format needs an active key of the environment and takes its own events only", async () => {
  const url = "https://example.com/hook";
  const other = await server.runtime.write((unit) =>
    apiKeys.create(unit, projectId, { name: "other", environment: "PRODUCTION" }),
  );
  const refused = async (body: object) => {
    const { status, body: answer } = await asMember("POST", "", { url, ...body });
    const [detail] = answer.details as { field: string; message: string }[];
    return [status, detail?.field, detail?.message];
  };
  expect(await refused({ format: "livekit" })).toEqual([400, "apiKeyId", expect.stringContaining("is required")]);
  const wrongKey = [400, "apiKeyId", "must be the id of an active API key of this project and environment"];
  expect(await refused({ format: "livekit", apiKeyId: other.id })).toEqual(wrongKey);
  expect(await refused({ format: "livekit", apiKeyId: "none" })).toEqual(wrongKey);
  expect(await refused({ format: "livekit", apiKeyId: keyRow.id, events: ["call.started"] })).toEqual([
    400,
    "events",
    "call.started is not an event of the format livekit",
  ]);
  expect(await refused({ events: ["room_started"] })).toEqual([
    400,
    "events",
    "room_started is not an event of the format stoa",
  ]);
  const all = { url, format: "livekit", apiKeyId: keyRow.id, events: [...LIVEKIT_EVENT_TYPES] };
  const made = await asMember("POST", "", all);
  expect([made.status, made.body.events]).toEqual([201, [...LIVEKIT_EVENT_TYPES]]);
  expect((await asMember("PATCH", `/${made.body.id}`, { format: "stoa" })).status).toBe(400);
  expect((await asMember("PATCH", `/${made.body.id}`, { apiKeyId: other.id })).status).toBe(400);
  expect((await asMember("PATCH", `/${made.body.id}`, { events: ["message.created"] })).status).toBe(400);
  const ours = await asMember("POST", "", { url });
  expect((await asMember("PATCH", `/${ours.body.id}`, { apiKeyId: keyRow.id })).status).toBe(400);
});

test("a revoked key stops deliveries with the reason, and another key of the endpoint continues them", async () => {
  const receiver = await endpoint({ events: ["room_started"] });
  const create = () =>
    server.runtime.write((unit) => apiKeys.create(unit, projectId, { name: "spare", environment: "DEVELOPMENT" }));
  const [first, second] = [await create(), await create()];
  await asMember("PATCH", `/${receiver.id}`, { apiKeyId: first.id });
  await server.runtime.write((unit) => void apiKeys.revoke(unit, projectId, first.id));
  await server.room();
  await settled();
  await webhookDispatcher.runDue();
  expect(receiver.received).toEqual([]);
  const [delivery] = (await asKey("GET", `/${receiver.id}/deliveries`)).body as unknown as { lastError: string }[];
  expect(delivery?.lastError).toBe("the API key was revoked; choose another one for the endpoint");
  expect((await asMember("PATCH", `/${receiver.id}`, { apiKeyId: second.id })).body.apiKeyId).toBe(second.id);
  server.clock.advance(15_000);
  await webhookDispatcher.runDue();
  const theirs = new sdk.WebhookReceiver(second.publicId, apiKeys.signingSecret(second.publicId));
  const [sent] = receiver.received;
  const event = await theirs.receive(
    sent?.body ?? "",
    sent?.headers.get("authorization") ?? "",
    false,
    TOLERANCE_SECONDS,
  );
  expect(event.event).toBe("room_started");
});

test("after a crash, participant_left is sent for the participants of the call", async () => {
  const receiver = await endpoint({ events: ["participant_joined", "participant_left"] });
  const roomId = await server.room();
  await joined(roomId, "ada");
  const after = createCalls(server.runtime, {
    cpuOf: () => null,
    minutesIn: () => 0,
    isEncrypted: () => false,
    recordingsOf: () => [],
    roomMessages: () => [],
    connectionHistory: () => ({ events: [], errors: [] }),
  });
  after.log.recover();
  await after.log.settle();
  const [arrived, left, ...more] = await verified(receiver);
  expect(more).toEqual([]);
  expect([arrived?.event, left?.event]).toEqual(["participant_joined", "participant_left"]);
  expect(left?.participant).toMatchObject({ sid: arrived?.participant?.sid, identity: "ada" });
});
