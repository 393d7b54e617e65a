import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { lastDates, minutesByDay, monthStart, startedMinutes } from "../../../src/features/usage/minutes.ts";
import { type TestServer, testServer } from "../../harness/server.ts";
import { CONNECTED, emitConnectionEvent } from "../sessions/emit-events.ts";

const at = (text: string) => Date.parse(text);

describe("[2] started minutes", () => {
  test.each([
    [0, 1],
    [1, 1],
    [60_000, 1],
    [60_001, 2],
    [120_000, 2],
  ])("a session of %d ms counts %d", (ms, minutes) => expect(startedMinutes(0, ms)).toBe(minutes));

  test("a minute belongs to the UTC day in which it starts", () => {
    const across = minutesByDay(at("2026-03-01T23:58:30Z"), at("2026-03-02T00:02:00Z"));
    expect([...across]).toEqual([
      ["2026-03-01", 2],
      ["2026-03-02", 2],
    ]);
    expect([...minutesByDay(at("2026-03-01T23:59:30Z"), at("2026-03-02T00:00:10Z"))]).toEqual([["2026-03-01", 1]]);
  });

  test("the days of a session always add up to its minutes", () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 4e12 }), fc.integer({ min: 0, max: 3 * 86_400_000 }), (start, length) => {
        const days = minutesByDay(start, start + length);
        expect([...days.values()].reduce((a, b) => a + b, 0)).toBe(startedMinutes(start, start + length));
      }),
      { seed: 7 },
    );
  });

  test("months and days are those of UTC", () => {
    expect(new Date(monthStart(at("2026-03-31T23:59:59Z"))).toISOString()).toBe("2026-03-01T00:00:00.000Z");
    expect(lastDates(at("2026-03-01T00:00:01Z"), 3)).toEqual(["2026-02-27", "2026-02-28", "2026-03-01"]);
  });
});

/** Two projects of one owner, with connection events as signaling publishes them. */
async function day(overrides = {}) {
  const server = testServer(overrides);
  const owner = await server.session({ role: "OWNER" });
  const [first, second] = await server.runtime.write((unit) =>
    ["first", "second"].map((name) => server.services.projects.create(unit, owner.userId, { name }).id),
  );
  if (first === undefined || second === undefined) throw new Error("no projects");
  const settle = () => server.runtime.writer.drain();
  const until = (time: string) => server.clock.advance(at(time) - server.clock.now());
  const join = (projectId: string, name: string) =>
    emitConnectionEvent(server, { projectId, connectionId: name, sessionId: name }, CONNECTED);
  const leave = (projectId: string, name: string) =>
    emitConnectionEvent(server, { projectId, connectionId: name, sessionId: name }, { type: "left", reason: "left" });
  const alive = (projectId: string, name: string) =>
    emitConnectionEvent(
      server,
      { projectId, connectionId: name, sessionId: name },
      { type: "stats", rttMs: 1, jitterMs: 1, packetLossPercent: 0 },
    );
  const get = async (path: string) => {
    await settle();
    // A session lasts an hour, which is less than these tests advance the clock by.
    const { sessions, users } = server.services;
    const started = await server.runtime.write((unit) =>
      sessions.start(unit, owner.userId, { ip: "127.0.0.1", userAgent: null }),
    );
    const { accessToken: key } = await sessions.signIn(users.get(owner.userId), started);
    return server.call("GET", path, { key });
  };
  return { server, first, second, settle, until, join, leave, alive, get };
}

type Close = { server: TestServer };
const done = ({ server }: Close) => server.close();

describe("[4.6] usage", () => {
  test("the usage of a scripted day equals a table computed by hand", async () => {
    const scene = await day();
    const { first, second, until, join, leave, alive, get, server } = scene;
    // anna   first   22:00:00 – 22:10:30           11 min on the 1st
    // ben    first   23:50:00 – 00:05:00           10 min on the 1st, 5 on the 2nd
    // carl   second  23:59:30 – crash, last seen 00:20:00: 1 min on the 1st, 20 on the 2nd
    // dora   second  00:30:00 – 00:30:01, with a reconnect in between: 1 min on the 2nd
    until("2026-03-01T22:00:00Z");
    join(first, "anna");
    until("2026-03-01T22:10:30Z");
    leave(first, "anna");
    until("2026-03-01T23:50:00Z");
    join(first, "ben");
    until("2026-03-01T23:59:30Z");
    join(second, "carl");
    until("2026-03-02T00:05:00Z");
    leave(first, "ben");
    until("2026-03-02T00:20:00Z");
    alive(second, "carl");
    await scene.settle();
    until("2026-03-02T00:25:00Z");
    await server.services.usage.meter.recover();
    until("2026-03-02T00:30:00Z");
    join(second, "dora");
    emitConnectionEvent(
      server,
      { projectId: second, connectionId: "dora", sessionId: "dora" },
      { type: "reconnecting", path: "media", reason: "x" },
    );
    emitConnectionEvent(
      server,
      { projectId: second, connectionId: "dora", sessionId: "dora" },
      { type: "reconnected", path: "media" },
    );
    server.clock.advance(1_000);
    leave(second, "dora");

    expect((await get("/v1/usage/detail?days=2")).body).toMatchObject({
      usedMinutes: 48,
      liveSessions: 0,
      daily: [
        { date: "2026-03-01", minutes: 22, sessions: 3 },
        { date: "2026-03-02", minutes: 26, sessions: 1 },
      ],
      projects: expect.arrayContaining([
        { projectId: first, name: "first", minutes: 26 },
        { projectId: second, name: "second", minutes: 22 },
      ]),
    });
    const { body } = await get(`/v1/projects/${second}/usage?days=1&limit=1`);
    expect(body).toMatchObject({ projectId: second, usedMinutes: 22, daily: [{ date: "2026-03-02", minutes: 21 }] });
    expect(body.history).toMatchObject([{ participantIdentity: "anna", minutes: 1 }]);
    await done(scene);
  });

  test("a project's minutes are counted by environment, of ended and of running sessions", async () => {
    const scene = await day();
    const { server, first, get } = scene;
    scene.until("2026-03-05T10:00:00Z");
    const production = { projectId: first, environment: "PRODUCTION" as const, connectionId: "p", sessionId: "p" };
    emitConnectionEvent(server, production, CONNECTED);
    scene.join(first, "anna");
    server.clock.advance(150_000);
    scene.leave(first, "anna");
    server.clock.advance(60_000);
    const used = async (query: string) => {
      const { body } = await get(`/v1/projects/${first}/usage?days=1${query}`);
      return [body.usedMinutes, body.daily, (body.history as unknown[]).length];
    };
    const of = (minutes: number, sessions: number) => [
      minutes,
      [{ date: "2026-03-05", minutes, sessions, recordedMinutes: 0 }],
      sessions,
    ];
    expect(await used("&environment=PRODUCTION")).toEqual(of(4, 1));
    emitConnectionEvent(server, production, { type: "left", reason: "left" });
    expect(await used("&environment=PRODUCTION")).toEqual(of(4, 1));
    expect(await used("&environment=DEVELOPMENT")).toEqual(of(3, 1));
    expect(await used("")).toEqual(of(7, 2));
    expect((await get("/v1/usage")).body.usedMinutes).toBe(7);
    await done(scene);
  });

  test("running sessions count until now", async () => {
    const scene = await day();
    scene.until("2026-03-05T10:00:00Z");
    scene.join(scene.first, "anna");
    scene.server.clock.advance(150_000);
    expect((await scene.get("/v1/usage")).body).toMatchObject({
      usedMinutes: 3,
      liveSessions: 1,
      remainingMinutes: 19_997,
      allowanceSet: false,
    });
    scene.leave(scene.first, "anna");
    expect((await scene.get("/v1/usage")).body).toMatchObject({ usedMinutes: 3, liveSessions: 0 });
    await done(scene);
  });

  test("a new month starts at zero, and a session across its start is split", async () => {
    const scene = await day();
    scene.until("2026-03-31T23:58:00Z");
    scene.join(scene.first, "anna");
    scene.until("2026-04-01T00:03:00Z");
    scene.leave(scene.first, "anna");
    expect((await scene.get("/v1/usage")).body).toMatchObject({
      usedMinutes: 3,
      periodStart: "2026-04-01T00:00:00.000Z",
    });
    await done(scene);
  });

  test("tokens beyond the allowance are refused only when the limit is enforced", async () => {
    for (const enforced of [false, true]) {
      const scene = await day({ USAGE_INCLUDED_MINUTES: 1, USAGE_ENFORCE_LIMIT: enforced });
      const { server, first } = scene;
      const { key } = await server.runtime.write((unit) =>
        server.services.apiKeys.create(unit, first, { name: "k", environment: "DEVELOPMENT" }),
      );
      const room = await server.call("POST", "/v1/rooms", { key, body: { name: "r" } });
      const mint = () =>
        server.call("POST", `/v1/rooms/${room.body.id}/rtc-tokens`, { key, body: { participantIdentity: "x" } });
      expect((await mint()).status).toBe(201);
      scene.join(first, "anna");
      await scene.settle();
      const { status, body } = await mint();
      expect([status, body.code]).toEqual(enforced ? [403, "SVC_USAGE_LIMIT_EXCEEDED"] : [201, undefined]);
      expect((await scene.get("/v1/usage")).body).toMatchObject({ exceeded: true, enforced, allowanceSet: true });
      await done(scene);
    }
  });

  test.each(["limit=0", "limit=201", "days=0", "days=366"])("%s is 400", async (query) => {
    const scene = await day();
    expect((await scene.get(`/v1/usage/detail?${query}`)).status).toBe(400);
    await done(scene);
  });

  test("every requested day is listed, with zeros for days without usage", async () => {
    const scene = await day();
    const { daily } = (await scene.get("/v1/usage/detail?days=365")).body as { daily: { minutes: number }[] };
    expect(daily).toHaveLength(365);
    expect(daily.every(({ minutes }) => minutes === 0)).toBe(true);
    await done(scene);
  });
});
