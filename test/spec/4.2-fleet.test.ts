import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { type Reply, testServer } from "../harness/server.ts";

const server = testServer();
afterAll(server.close);

const SECRET = "test-sfu-secret";
const { token: operator } = await server.session({ operator: true });
const node = { name: "n1", region: "eu", publicHost: "media.example.com", internalUrl: "http://10.0.0.5:7000" };
const register = (body: object = {}, key = SECRET) =>
  server.call("POST", "/v1/rtc/servers/register", { key, body: { ...node, ...body } });
const beat = (body: object = {}, name = "n1", key = SECRET) =>
  server.call("PUT", `/v1/rtc/servers/${name}/heartbeat`, {
    key,
    body: { activeRooms: 2, activeParticipants: 9, ...body },
  });
const read = (path: string) => server.call("GET", `/v1/rtc/servers${path}`, { key: operator });
const status = async (name = "n1") => (await read(`/${name}`)).body.status;
const list = (reply: Reply) => JSON.parse(reply.text) as Record<string, unknown>[];

beforeEach(() => server.runtime.db.$client.run("DELETE FROM rtc_servers"));

describe("[4.2] POST /v1/rtc/servers/register", () => {
  test("returns 201 the first time and 200 afterwards, for the same record", async () => {
    const first = await register({ capacity: 500, version: "1.2.3" });
    expect(first.status).toBe(201);
    expect(first.body).toEqual({
      ...node,
      capacity: 500,
      version: "1.2.3",
      status: "HEALTHY",
      activeRooms: null,
      activeParticipants: null,
      cpuPercent: null,
      memoryPercent: null,
      networkInBps: null,
      networkOutBps: null,
      registeredAt: expect.any(String),
      lastHeartbeatAt: null,
    });
    await beat();
    const again = await register({ region: "us" });
    expect(again.status).toBe(200);
    expect(again.body).toMatchObject({ region: "us", capacity: null, activeRooms: null });
    expect(list(await read(""))).toHaveLength(1);
  });

  test("every registration field accepts its limits and nothing beyond", async () => {
    const cases: [object, number][] = [
      [{ name: "" }, 400],
      [{ name: "n".repeat(128) }, 201],
      [{ name: "n".repeat(129) }, 400],
      [{ name: "has space" }, 400],
      [{ name: "metrics" }, 400],
      [{ name: "register" }, 400],
      [{ name: "metrics2" }, 201],
      [{ region: "" }, 400],
      [{ region: "r" }, 201],
      [{ region: "r".repeat(64) }, 201],
      [{ region: "r".repeat(65) }, 400],
      [{ publicHost: "" }, 400],
      [{ publicHost: "h".repeat(255) }, 201],
      [{ publicHost: "h".repeat(256) }, 400],
      [{ internalUrl: "" }, 400],
      [{ internalUrl: `http://${"u".repeat(248)}` }, 201],
      [{ internalUrl: `http://${"u".repeat(249)}` }, 400],
      [{ capacity: 0 }, 400],
      [{ capacity: 1 }, 201],
      [{ capacity: 100_000 }, 201],
      [{ capacity: 100_001 }, 400],
      [{ version: "" }, 201],
      [{ version: "v".repeat(64) }, 201],
      [{ version: "v".repeat(65) }, 400],
      [{ region: undefined }, 400],
    ];
    for (const [at, [fields, expected]] of cases.entries()) {
      const { status } = await register({ name: `edge-${at}`, ...fields });
      expect([JSON.stringify(fields).slice(0, 40), status]).toEqual([JSON.stringify(fields).slice(0, 40), expected]);
    }
  });
});

describe("[4.2] PUT /v1/rtc/servers/{name}/heartbeat", () => {
  test("accepts the load and returns the node's status", async () => {
    await register();
    const figures = { cpuPercent: 12.5, memoryPercent: 40, networkInBps: 1_000_000, networkOutBps: 9_000_000.5 };
    const reply = await beat(figures);
    expect([reply.status, reply.body]).toEqual([200, { status: "HEALTHY", draining: false }]);
    expect((await read("/n1")).body).toMatchObject({ activeRooms: 2, activeParticipants: 9, ...figures });
    await beat();
    expect((await read("/n1")).body).toMatchObject({ cpuPercent: null, networkOutBps: null });
  });

  test("refuses values outside of their limits, and an unregistered node is 404", async () => {
    await register();
    const cases: [object, number][] = [
      [{ activeRooms: -1 }, 400],
      [{ activeRooms: 0, activeParticipants: 0 }, 200],
      [{ activeParticipants: -1 }, 400],
      [{ activeRooms: undefined }, 400],
      [{ cpuPercent: -0.1 }, 400],
      [{ cpuPercent: 0 }, 200],
      [{ cpuPercent: 100 }, 200],
      [{ cpuPercent: 100.1 }, 400],
      [{ memoryPercent: 101 }, 400],
      [{ networkInBps: -1 }, 400],
      [{ networkOutBps: 0 }, 200],
    ];
    for (const [fields, expected] of cases) {
      expect([JSON.stringify(fields), (await beat(fields)).status]).toEqual([JSON.stringify(fields), expected]);
    }
    expect((await beat({}, "unknown")).body.code).toBe("SVC_RTC_SERVER_NOT_FOUND");
  });

  test("the registration secret is required, and no other credential is accepted", async () => {
    const { key } = await server.project();
    for (const wrong of ["", "test-sfu-secre", "test-sfu-secret2", operator, key]) {
      expect((await register({}, wrong)).status).toBe(401);
      expect((await beat({}, "n1", wrong)).status).toBe(401);
    }
  });
});

describe("[2] health", () => {
  test("30 seconds without a heartbeat make a node unhealthy, and the next heartbeat makes it healthy", async () => {
    await register();
    server.clock.advance(29_999);
    expect(await status()).toBe("HEALTHY");
    server.clock.advance(1);
    expect(await status()).toBe("UNHEALTHY");
    await beat();
    expect(await status()).toBe("HEALTHY");
    server.clock.advance(29_999);
    expect(await status()).toBe("HEALTHY");
  });

  test("draining survives heartbeats and a restart, and a silent draining node is unhealthy", async () => {
    await register();
    const drained = await server.call("POST", "/v1/rtc/servers/n1/drain", { key: operator });
    expect([drained.status, drained.body.status]).toEqual([200, "DRAINING"]);
    expect((await beat()).body).toEqual({ status: "DRAINING", draining: true });
    await register();
    expect(await status()).toBe("DRAINING");
    server.clock.advance(30_000);
    expect(await status()).toBe("UNHEALTHY");
    expect((await beat()).body).toEqual({ status: "DRAINING", draining: true });
    const undrained = await server.call("POST", "/v1/rtc/servers/n1/undrain", { key: operator });
    expect([undrained.status, undrained.body.status]).toEqual([200, "HEALTHY"]);
    expect((await server.call("POST", "/v1/rtc/servers/n1/undrain", { key: operator })).status).toBe(200);
  });
});

describe("[4.2] the fleet as an operator reads it", () => {
  test("is listed newest first, and an unknown name is 404", async () => {
    for (const name of ["a", "b", "c"]) {
      await register({ name });
      server.clock.advance(1);
    }
    expect(list(await read("")).map(({ name }) => name)).toEqual(["c", "b", "a"]);
    const first = await read("?limit=2");
    const next = /<([^>]+)>/.exec(first.headers.get("link") ?? "")?.[1] ?? "";
    expect(list(await server.call("GET", next, { key: operator })).map(({ name }) => name)).toEqual(["a"]);
    for (const [method, path] of [
      ["GET", "/v1/rtc/servers/nobody"],
      ["POST", "/v1/rtc/servers/nobody/drain"],
      ["POST", "/v1/rtc/servers/nobody/undrain"],
    ] as const) {
      expect((await server.call(method, path, { key: operator })).body.code).toBe("SVC_RTC_SERVER_NOT_FOUND");
    }
  });

  test("totals add the known values of all nodes that are not unhealthy", async () => {
    expect((await read("/metrics")).body).toEqual({
      servers: 0,
      healthy: 0,
      draining: 0,
      unhealthy: 0,
      capacity: null,
      activeRooms: null,
      activeParticipants: null,
      networkInBps: null,
      networkOutBps: null,
    });
    await register({ name: "silent", capacity: 1000 });
    await beat({}, "silent");
    server.clock.advance(30_000);
    await register({ name: "a", capacity: 100 });
    await beat({ networkInBps: 10, networkOutBps: 90 }, "a");
    await register({ name: "b" });
    await beat({ activeRooms: 1, activeParticipants: 1, networkInBps: 5 }, "b");
    await register({ name: "c", capacity: 50 });
    await server.call("POST", "/v1/rtc/servers/c/drain", { key: operator });
    expect((await read("/metrics")).body).toEqual({
      servers: 4,
      healthy: 2,
      draining: 1,
      unhealthy: 1,
      capacity: 150,
      activeRooms: 3,
      activeParticipants: 10,
      networkInBps: 15,
      networkOutBps: 90,
    });
  });

  test("is for operators only: 403 for other accounts, 401 without a session", async () => {
    await register();
    const { token } = await server.session({ role: "OWNER" });
    for (const [method, path] of [
      ["GET", "/v1/rtc/servers"],
      ["GET", "/v1/rtc/servers/n1"],
      ["GET", "/v1/rtc/servers/metrics"],
      ["GET", "/v1/rtc/links"],
      ["POST", "/v1/rtc/servers/n1/drain"],
      ["POST", "/v1/rtc/servers/n1/undrain"],
    ] as const) {
      expect((await server.call(method, path, { key: token })).body.code).toBe("SVC_PERMISSION_DENIED");
      for (const key of [undefined, SECRET]) expect((await server.call(method, path, { key })).status).toBe(401);
    }
    expect(await status()).toBe("HEALTHY");
  });
});
