import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { type TestServer, testServer } from "../../harness/server.ts";
import { CONNECTED, emitConnectionEvent } from "./emit-events.ts";

let server: TestServer;
let projectId: string;
let key: string;
beforeEach(async () => {
  server = testServer();
  ({ projectId, key } = await server.project());
});
afterAll(() => server.close());

const flush = () => server.services.rtcSessions.recorder.flush();
const get = async (path: string) => {
  await flush();
  return server.call("GET", path, { key });
};
type Event = { type: string; source: string; data: Record<string, unknown> | null };
const detail = async (id = "conn-1") =>
  (await get(`/v1/connections/${id}`)).body as Record<string, never> & { events: Event[] };

describe("[4.6] the record of a connection", () => {
  test("a connection that joins, connects and leaves has its states, times and timeline", async () => {
    emitConnectionEvent(server, { projectId }, { type: "started", mode: "new" });
    expect(await detail()).toMatchObject({
      state: "CONNECTING",
      connectedAt: null,
      durationMs: null,
      joinTimeMs: null,
    });
    server.clock.advance(180);
    emitConnectionEvent(server, { projectId }, CONNECTED);
    emitConnectionEvent(server, { projectId }, { type: "stats", rttMs: 21, jitterMs: 2.5, packetLossPercent: 0 });
    server.clock.advance(60_000);
    expect(await detail()).toMatchObject({
      state: "CONNECTED",
      joinTimeMs: 180,
      durationMs: 60_000,
      rttMs: 21,
      jitterMs: 2.5,
    });
    emitConnectionEvent(server, { projectId }, { type: "left", reason: "left" });
    const record = await detail();
    expect(record).toMatchObject({
      state: "DISCONNECTED",
      disconnectReason: "left",
      durationMs: 60_000,
      reconnectCount: 0,
      errors: [],
      participantIdentity: "anna",
      roomName: "lobby",
      ipAddress: "198.51.100.7",
    });
    expect(record.events.map(({ type }) => type)).toEqual([
      "connection_started",
      "participant_joined",
      "connected",
      "participant_left",
      "disconnected",
    ]);
  });

  test("an outage counts once, although the socket and the packets notice it at different times", async () => {
    emitConnectionEvent(server, { projectId }, { type: "started", mode: "new" });
    emitConnectionEvent(server, { projectId }, CONNECTED);
    server.clock.advance(8_000);
    emitConnectionEvent(server, { projectId }, { type: "reconnecting", path: "media", reason: "consent_timeout" });
    expect(await detail()).toMatchObject({ state: "RECONNECTING" });
    emitConnectionEvent(server, { projectId }, { type: "reconnecting", path: "signaling", reason: "socket_closed" });
    server.clock.advance(4_000);
    emitConnectionEvent(server, { projectId }, { type: "reconnected", path: "signaling" });
    emitConnectionEvent(server, { projectId }, { type: "reconnected", path: "media" });
    expect(await detail()).toMatchObject({ state: "CONNECTED", reconnectCount: 1, errors: [] });
    server.clock.advance(120_000);
    emitConnectionEvent(server, { projectId }, { type: "reconnecting", path: "media", reason: "consent_timeout" });
    emitConnectionEvent(server, { projectId }, { type: "reconnected", path: "media" });
    expect(await detail()).toMatchObject({ reconnectCount: 2 });
  });

  test("stalled media is a network error, and the timeline shows when it flows again", async () => {
    emitConnectionEvent(server, { projectId }, { type: "started", mode: "new" });
    emitConnectionEvent(server, { projectId }, CONNECTED);
    emitConnectionEvent(server, { projectId }, { type: "mediaStalled" });
    emitConnectionEvent(server, { projectId }, { type: "mediaFlows" });
    const record = await detail();
    expect(record).toMatchObject({ state: "CONNECTED", reconnectCount: 0 });
    expect(record.errors).toMatchObject([{ category: "NETWORK_ERROR", code: "media_stalled" }]);
    expect(record.events.slice(-2).map(({ data }) => data)).toEqual([{ media: "stalled" }, { media: "flowing" }]);
  });

  test("a connection that does not return is FAILED with exactly one error", async () => {
    emitConnectionEvent(server, { projectId }, { type: "started", mode: "new" });
    emitConnectionEvent(server, { projectId }, CONNECTED);
    emitConnectionEvent(server, { projectId }, { type: "reconnecting", path: "media", reason: "consent_timeout" });
    emitConnectionEvent(server, { projectId }, { type: "mediaFailed", reason: "consent_timeout" });
    emitConnectionEvent(server, { projectId }, { type: "left", reason: "timeout" });
    const record = await detail();
    expect(record).toMatchObject({ state: "FAILED", disconnectReason: "timeout" });
    expect(record.errors).toMatchObject([{ category: "NETWORK_ERROR", connectionId: "conn-1", code: "timeout" }]);
  });

  test("media that never arrives is exactly one ICE error, however the connection ends", async () => {
    emitConnectionEvent(server, { projectId }, { type: "started", mode: "new" });
    emitConnectionEvent(server, { projectId }, { type: "mediaFailed", reason: "ice_timeout" });
    emitConnectionEvent(server, { projectId }, { type: "mediaFailed", reason: "ice_timeout" });
    emitConnectionEvent(server, { projectId }, { type: "left", reason: "failed" });
    const { body } = await get("/v1/errors");
    expect(body).toMatchObject([{ category: "ICE_ERROR", code: "ice_timeout" }]);
    expect(body).toHaveLength(1);
    expect((body as never as { suggestedAction: string }[])[0]?.suggestedAction).toContain("MEDIA_UDP_PORT");
  });

  test("a lost node is an SFU error, and the rejoin continues the same record", async () => {
    emitConnectionEvent(server, { projectId }, { type: "started", mode: "new" });
    emitConnectionEvent(server, { projectId }, CONNECTED);
    emitConnectionEvent(server, { projectId }, { type: "left", reason: "node_lost" });
    expect((await detail()).errors).toMatchObject([{ category: "SFU_ERROR" }]);
    emitConnectionEvent(server, { projectId, sessionId: "again" }, { type: "started", mode: "new" });
    emitConnectionEvent(server, { projectId, sessionId: "again" }, CONNECTED);
    expect(await detail()).toMatchObject({ state: "CONNECTED", disconnectedAt: null, reconnectCount: 1 });
    expect((await get("/v1/connections")).body).toHaveLength(1);
  });

  test("after a crash, open connections end at their last sign of life", async () => {
    emitConnectionEvent(server, { projectId }, { type: "started", mode: "new" });
    emitConnectionEvent(server, { projectId }, CONNECTED);
    server.clock.advance(30_000);
    emitConnectionEvent(server, { projectId }, { type: "stats", rttMs: 1, jitterMs: 1, packetLossPercent: 0 });
    await flush();
    server.clock.advance(600_000);
    await server.services.rtcSessions.recorder.recover();
    const row = server.runtime.db.$client
      .query("SELECT state, disconnected_at - connected_at AS ms FROM rtc_connections")
      .get();
    expect(row).toEqual({ state: "FAILED", ms: 30_000 });
  });
});

describe("[4.6] refused joins", () => {
  const refuse = (code: string, more = {}) =>
    server.runtime.bus.emit("rtcRefused", {
      code,
      message: "no",
      closeCode: 4401,
      projectId,
      environment: "DEVELOPMENT",
      roomId: "room-1",
      participantIdentity: "anna",
      tokenId: "t",
      connectionId: "conn-9",
      sdk: null,
      userAgent: null,
      ipAddress: "198.51.100.7",
      startedAt: server.clock.now(),
      at: server.clock.now(),
      ...more,
    });

  test.each([
    ["TOKEN_EXPIRED", "TOKEN_ERROR"],
    ["PERMISSION_DENIED", "AUTHORIZATION_ERROR"],
    ["ROOM_FULL", "SIGNALING_ERROR"],
    ["NO_RTC_CAPACITY", "SFU_ERROR"],
  ])("%s is a failed connection and a %s", async (code, category) => {
    refuse(code);
    expect(await detail("conn-9")).toMatchObject({ state: "FAILED", disconnectReason: code, connectedAt: null });
    expect((await get("/v1/errors?connectionId=conn-9")).body).toMatchObject([{ category, code }]);
  });

  test("a refusal without an identity is an error without a connection, and one without a project is not recorded", async () => {
    refuse("TOKEN_EXPIRED", { connectionId: null });
    refuse("AUTH_ERROR", { projectId: null });
    const { body } = await get("/v1/errors");
    expect(body).toMatchObject([{ category: "TOKEN_ERROR", connectionId: null }]);
    const [{ id }] = body as never as [{ id: string }];
    expect((await get(`/v1/errors/${id}`)).body).toMatchObject({ id, connection: null });
  });
});

describe("[4.6] lists", () => {
  const roomId = async (name: string) =>
    (
      await server.runtime.write((unit) =>
        server.services.rooms.create(unit, { projectId, environment: "DEVELOPMENT" }, { name }),
      )
    ).id;

  const many = async (count: number) => {
    const [even, odd] = [await roomId("even"), await roomId("odd")];
    for (let n = 0; n < count; n++) {
      server.clock.advance(1_000);
      emitConnectionEvent(
        server,
        { projectId, connectionId: `c-${n}`, roomId: n % 2 ? odd : even },
        { type: "started", mode: "new" },
      );
      if (n % 3 === 0)
        emitConnectionEvent(
          server,
          { projectId, connectionId: `c-${n}`, roomId: n % 2 ? odd : even },
          { type: "left", reason: "left" },
        );
    }
  };

  test("lists are newest first, filtered by state and room, and paged without gap or repetition", async () => {
    await many(25);
    expect((await get("/v1/connections?state=DISCONNECTED")).body).toHaveLength(9);
    expect((await get("/v1/connections?roomId=odd")).body).toHaveLength(12);
    expect((await get("/v1/connections?state=DISCONNECTED&roomId=even")).body).toHaveLength(5);
    const seen: string[] = [];
    let path: string | null = "/v1/connections?limit=7";
    while (path !== null) {
      const { body, headers } = await get(path);
      seen.push(...(body as never as { connectionId: string }[]).map(({ connectionId }) => connectionId));
      path = /<([^>]+)>; rel="next"/.exec(headers.get("link") ?? "")?.[1] ?? null;
    }
    expect(seen).toEqual(Array.from({ length: 25 }, (_, n) => `c-${24 - n}`));
  });

  test.each([
    ["limit=0", 400],
    ["limit=1", 200],
    ["limit=200", 200],
    ["limit=201", 400],
    ["state=GONE", 400],
    ["cursor=nonsense", 400],
  ])("connections?%s is %d", async (query, status) => {
    expect((await get(`/v1/connections?${query}`)).status).toBe(status);
  });

  test("another project and the other environment see nothing", async () => {
    await many(1);
    await flush();
    const other = await server.project();
    const production = await server.project({ environment: "PRODUCTION" });
    for (const stranger of [other.key, production.key]) {
      expect((await server.call("GET", "/v1/connections", { key: stranger })).body).toEqual([] as never);
      expect((await server.call("GET", "/v1/connections/c-0", { key: stranger })).body.code).toBe(
        "SVC_CONNECTION_NOT_FOUND",
      );
    }
    const viewer = await server.session({ role: "VIEWER", projectId });
    const path = `/v1/projects/${projectId}/connections`;
    expect((await server.call("GET", path, { key: viewer.token })).body).toHaveLength(1);
    expect((await server.call("GET", `${path}?environment=PRODUCTION`, { key: viewer.token })).body).toHaveLength(0);
    expect((await server.call("GET", `${path}/c-0`, { key: viewer.token })).status).toBe(200);
    const stranger = await server.session();
    expect((await server.call("GET", path, { key: stranger.token })).body.code).toBe("SVC_PROJECT_NOT_FOUND");
  });

  test("records past their retention are removed in small steps, with their timelines", async () => {
    await many(450);
    await flush();
    server.clock.advance(31 * 86_400_000);
    emitConnectionEvent(server, { projectId, connectionId: "young" }, { type: "started", mode: "new" });
    await flush();
    await server.services.rtcSessions.connections.prune();
    expect((await get("/v1/connections")).body).toMatchObject([{ connectionId: "young" }]);
    const left = server.runtime.db.$client
      .query<{ n: number }, []>("SELECT count(*) AS n FROM rtc_connection_events")
      .get();
    expect(left?.n).toBe(2);
  });
});

test("[4.6] a retention of 0 days keeps everything", async () => {
  const keeping = testServer({ CONNECTION_RETENTION_DAYS: 0 });
  const { projectId, key } = await keeping.project();
  emitConnectionEvent(keeping, { projectId }, { type: "started", mode: "new" });
  await keeping.services.rtcSessions.recorder.flush();
  keeping.clock.advance(1000 * 86_400_000);
  await keeping.services.rtcSessions.connections.prune();
  expect((await keeping.call("GET", "/v1/connections", { key })).body).toHaveLength(1);
  await keeping.close();
});

describe("[4.6] metrics", () => {
  test("a figure that was not measured is null, not zero", async () => {
    expect((await get("/v1/metrics")).body).toMatchObject({
      rangeSeconds: 86_400,
      connections: 0,
      connectionSuccessRate: null,
      reconnectionRate: null,
      averageConnectionDurationMs: null,
      joinTimeMs: { p50: null, p95: null, p99: null },
      errors: { total: 0 },
    });
  });

  test("rates, durations and percentiles cover what was measured within the range", async () => {
    for (let n = 1; n <= 10; n++) {
      const scene = { projectId, connectionId: `c-${n}` };
      emitConnectionEvent(server, scene, { type: "started", mode: "new" });
      if (n <= 8)
        emitConnectionEvent(server, scene, {
          ...CONNECTED,
          type: "connected",
          joinTimeMs: n * 100,
        } as typeof CONNECTED);
    }
    server.clock.advance(10_000);
    for (let n = 1; n <= 4; n++)
      emitConnectionEvent(server, { projectId, connectionId: `c-${n}` }, { type: "left", reason: "left" });
    emitConnectionEvent(server, { projectId, connectionId: "c-9" }, { type: "mediaFailed", reason: "ice_timeout" });
    emitConnectionEvent(server, { projectId, connectionId: "c-9" }, { type: "left", reason: "failed" });
    expect((await get("/v1/metrics?range=15m")).body).toMatchObject({
      rangeSeconds: 900,
      connections: 10,
      activeRooms: 1,
      activeParticipants: 5,
      connectionSuccessRate: 8 / 9,
      reconnectionRate: 0,
      averageConnectionDurationMs: 10_000,
      joinTimeMs: { p50: 400, p95: 800, p99: 800 },
      errors: { total: 1, byCategory: { ICE_ERROR: 1, NETWORK_ERROR: 0 } },
    });
    server.clock.advance(16 * 60_000);
    expect((await get("/v1/metrics?range=15m")).body).toMatchObject({ connections: 0, connectionSuccessRate: null });
    expect((await get("/v1/metrics?range=1h")).body).toMatchObject({ connections: 10 });
    expect((await get("/v1/metrics?range=2h")).status).toBe(400);
  });
});
