import { afterAll, beforeAll, expect, test } from "bun:test";
import { type TestServer, testServer } from "../../harness/server.ts";
import { CONNECTED, emitConnectionEvent } from "./emit-events.ts";

let server: TestServer;
let project: { projectId: string; key: string };
let token: string;
let roomId: string;

beforeAll(async () => {
  server = testServer();
  project = await server.project();
  const room = await server.call("POST", "/v1/rooms", { key: project.key, body: { name: "lobby" } });
  roomId = String(room.body.id);
  token = await mint("anna");
});
afterAll(() => server.close());

async function mint(participantIdentity: string): Promise<string> {
  const path = `/v1/rooms/${roomId}/rtc-tokens`;
  return String((await server.call("POST", path, { key: project.key, body: { participantIdentity } })).body.token);
}
const report = (body: object, key = token) => server.call("POST", "/v1/telemetry/events", { key, body });
const timeline = async (id: string) => {
  await server.services.rtcSessions.recorder.flush();
  return (await server.call("GET", `/v1/connections/${id}`, { key: project.key })).body as {
    state: string;
    events: { type: string; source: string; timestamp: string }[];
    errors: { category: string; code: string }[];
  };
};

test("[4.6] an event with a connectionId that the server does not know yet creates the connection's record", async () => {
  const { status, text } = await report({ connectionId: "early", type: "connection_started" });
  expect([status, text]).toEqual([202, ""]);
  const { events, state } = await timeline("early");
  expect(state).toBe("CONNECTING");
  expect(events).toMatchObject([{ type: "connection_started", source: "client" }]);
});

test("[4.6] events of client and server are one timeline, merged by connectionId and ordered by time", async () => {
  const scene = { projectId: project.projectId, connectionId: "merged", roomId };
  const sentAt = new Date(server.clock.now()).toISOString();
  emitConnectionEvent(server, scene, { type: "started", mode: "new" });
  server.clock.advance(1_000);
  emitConnectionEvent(server, scene, CONNECTED);
  await report({
    connectionId: "merged",
    type: "signaling_state_changed",
    timestamp: sentAt,
    data: { state: "stable" },
  });
  const { events } = await timeline("merged");
  expect(events.map(({ type, source }) => `${source} ${type}`)).toEqual([
    "server connection_started",
    "server participant_joined",
    "client signaling_state_changed",
    "server connected",
  ]);
});

test("[4.6] another participant's connection is 403, and nothing is added to it", async () => {
  await report({ connectionId: "annas", type: "connection_started" });
  const { status, body } = await report({ connectionId: "annas", type: "error" }, await mint("mallory"));
  expect([status, body.code]).toEqual([403, "SVC_PERMISSION_DENIED"]);
  expect((await timeline("annas")).events).toHaveLength(1);
});

test("[4.6] a client's error is classified, and its failure to connect ends the record", async () => {
  await report({ connectionId: "sad", type: "error", data: { code: "NotAllowedError" } });
  await report({ connectionId: "sad", type: "connection_failed", data: { code: "UDP_BLOCKED" } });
  const { state, errors } = await timeline("sad");
  expect(state).toBe("FAILED");
  expect(errors.map(({ category }) => category).sort()).toEqual(["CLIENT_ERROR", "ICE_ERROR"]);
});

test.each([
  [{ connectionId: "x", type: "made_up" }, 400],
  [{ type: "error" }, 400],
  [{ connectionId: "", type: "error" }, 400],
  [{ connectionId: "x".repeat(128), type: "error" }, 202],
  [{ connectionId: "x".repeat(129), type: "error" }, 400],
  [{ connectionId: "has space", type: "error" }, 400],
  [{ connectionId: "x", type: "error", timestamp: "yesterday" }, 400],
  [{ connectionId: "x", type: "error", data: { pad: "x".repeat(8_000) } }, 202],
  [{ connectionId: "x", type: "error", data: { pad: "x".repeat(8_200) } }, 413],
])("[4.6] %j", async (body, status) => {
  expect((await report(body)).status).toBe(status);
});

test("[4.6] an event with an impossible time gets the time of its arrival", async () => {
  await report({ connectionId: "odd-clock", type: "connected", timestamp: "1999-01-01T00:00:00.000Z" });
  const { events } = await timeline("odd-clock");
  expect(events[0]?.timestamp).toBe(new Date(server.clock.now()).toISOString());
});

test("[8] a token sends 600 reports in a window, and the answers have the rate-limit headers", async () => {
  const busy = await mint("busy");
  const one = { connectionId: "busy", type: "ice_state_changed" };
  for (let n = 0; n < 599; n++) await report(one, busy);
  const last = await report(one, busy);
  expect([last.status, last.headers.get("ratelimit-remaining")]).toEqual([202, "0"]);
  const refused = await report(one, busy);
  expect([refused.status, refused.body.code]).toEqual([429, "SVC_RATE_LIMITED"]);
  expect(refused.headers.get("retry-after")).toBe(String(refused.body.retryAfterSeconds));
  expect((await report(one, await mint("calm"))).status).not.toBe(429);
});

test("[4.6] an API key is not accepted as an RTC token", async () => {
  expect((await report({ connectionId: "x", type: "error" }, project.key)).status).toBe(401);
});

test("[4.6] a connection that only its client reported does not count as a participant", async () => {
  const active = async () => {
    await server.services.rtcSessions.recorder.flush();
    const { activeRooms, activeParticipants } = (await server.call("GET", "/v1/metrics", { key: project.key })).body;
    return { activeRooms, activeParticipants };
  };
  const before = await active();
  await report({ connectionId: "phantom", type: "connection_started" });
  expect(await active()).toEqual(before);
  expect((await timeline("phantom")).state).toBe("CONNECTING");
});

test("[4.6] a record that could not be written is written the next time, and affects no other record", async () => {
  const { db } = server.runtime;
  const scene = (connectionId: string) => ({ projectId: project.projectId, connectionId, roomId });
  emitConnectionEvent(server, scene("unlucky"), { type: "started", mode: "new" });
  db.$client.run("PRAGMA query_only = ON");
  await expect(server.services.rtcSessions.recorder.flush()).rejects.toThrow(/readonly/);
  db.$client.run("PRAGMA query_only = OFF");

  await report({ connectionId: "unlucky", type: "signaling_state_changed" });
  emitConnectionEvent(server, scene("lucky"), { type: "started", mode: "new" });
  expect((await timeline("lucky")).state).toBe("CONNECTING");
  expect((await timeline("unlucky")).events).toMatchObject([{ type: "signaling_state_changed", source: "client" }]);
});

test("[4.6] a token opens a limited number of records by telemetry, and one that cannot join opens none", async () => {
  const records = async () => {
    await server.services.rtcSessions.recorder.flush();
    return server.runtime.db.$client.query("SELECT count(*) AS n FROM rtc_connections").get() as { n: number };
  };
  const { n: before } = await records();
  const path = `/v1/rooms/${roomId}/rtc-tokens`;
  const body = { participantIdentity: "mallory", permissions: { join: false } };
  const outside = String((await server.call("POST", path, { key: project.key, body })).body.token);
  const inside = await mint("mallory");
  for (let i = 0; i < 200; i += 1) {
    expect((await report({ connectionId: `none-${i}`, type: "error" }, outside)).status).toBe(202);
    expect((await report({ connectionId: `many-${i}`, type: "error" }, inside)).status).toBe(202);
  }
  expect((await records()).n - before).toBe(20);
  // Records that it opened continue; without a record there is nothing to continue.
  await report({ connectionId: "many-0", type: "connected" }, inside);
  expect((await timeline("many-0")).events).toHaveLength(2);
});
