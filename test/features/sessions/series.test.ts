import { afterAll, beforeEach, describe, expect, test } from "bun:test";
import { type TestServer, testServer } from "../../harness/server.ts";
import { CONNECTED, emitConnectionEvent } from "./emit-events.ts";

const MINUTE = 60_000;
let server: TestServer;
let projectId: string;
let key: string;
let token: string;
const opened: TestServer[] = [];
afterAll(() => Promise.all(opened.map((one) => one.close())));
beforeEach(async () => {
  server = testServer();
  opened.push(server);
  ({ projectId, key } = await server.project());
  ({ token } = await server.session({ projectId, role: "VIEWER" }));
  // The first second of a minute, so that a step is what a test thinks it is.
  server.clock.advance(MINUTE - (server.clock.now() % MINUTE));
});

type Point = Record<
  "rooms" | "participants" | "joins" | "failedJoins" | "messages" | "deliveries" | "failedDeliveries",
  number
> & { at: string };
type Series = { rangeSeconds: number; stepSeconds: number; points: Point[] };

async function series(range = "1h", environment = "DEVELOPMENT"): Promise<Series> {
  await server.services.rtcSessions.recorder.flush();
  const path = `/v1/projects/${projectId}/metrics/series?range=${range}&environment=${environment}`;
  return (await server.call("GET", path, { key: token })).body as unknown as Series;
}
const values = (points: Point[], field: Exclude<keyof Point, "at">) => points.map((point) => point[field]);
const say = async (text: string, environmentKey = key) => {
  await server.call("POST", "/v1/chat/conversations", { key: environmentKey, body: { name: "talk" } });
  const body = { text, senderId: "ada" };
  expect(
    (await server.call("POST", "/v1/chat/conversations/talk/messages", { key: environmentKey, body })).status,
  ).toBe(201);
};

describe("[4.6] metrics over time", () => {
  test("every step of the range is listed, oldest first, and empty ones are zero", async () => {
    for (const [range, steps, stepSeconds] of [
      ["15m", 15, 60],
      ["1h", 60, 60],
      ["24h", 96, 900],
      ["7d", 168, 3600],
    ] as const) {
      const answer = await series(range);
      expect([range, answer.stepSeconds, answer.points.length]).toEqual([range, stepSeconds, steps]);
      const times = answer.points.map(({ at }) => Date.parse(at));
      expect(times).toEqual(times.toSorted((a, b) => a - b));
      expect(times.at(-1)).toBeLessThanOrEqual(server.clock.now());
      expect(new Set(values(answer.points, "participants"))).toEqual(new Set([0]));
    }
  });

  test("participants and rooms are the highest number at the same time within a step, including those who joined earlier", async () => {
    emitConnectionEvent(server, { projectId, connectionId: "old" }, { type: "started", mode: "new" });
    emitConnectionEvent(server, { projectId, connectionId: "old" }, CONNECTED);
    server.clock.advance(30 * MINUTE);
    for (const [connectionId, roomId] of [
      ["a", "room-1"],
      ["b", "room-2"],
    ] as const) {
      emitConnectionEvent(
        server,
        { projectId, connectionId, roomId, identity: connectionId },
        { type: "started", mode: "new" },
      );
      emitConnectionEvent(server, { projectId, connectionId, roomId, identity: connectionId }, CONNECTED);
    }
    server.clock.advance(MINUTE);
    for (const connectionId of ["a", "b"]) {
      const roomId = connectionId === "a" ? "room-1" : "room-2";
      emitConnectionEvent(
        server,
        { projectId, connectionId, roomId, identity: connectionId },
        { type: "left", reason: "left" },
      );
    }
    server.clock.advance(2 * MINUTE);
    const { points } = await series("15m");
    expect(values(points, "participants")).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 1, 1, 1]);
    expect(values(points, "rooms")).toEqual([1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1]);
    expect(values(points, "joins").reduce((sum, count) => sum + count)).toBe(2);
  });

  test("messages are counted without delay, kept over a flush, and separate for each environment", async () => {
    await say("one");
    await say("two");
    server.clock.advance(MINUTE);
    await server.services.rtcSessions.activity.flush();
    await say("three");
    expect(values((await series("15m")).points, "messages").slice(-3)).toEqual([0, 2, 1]);
    await server.services.rtcSessions.activity.flush();
    await say("four");
    expect(values((await series("15m")).points, "messages").slice(-3)).toEqual([0, 2, 2]);
    expect(new Set(values((await series("15m", "PRODUCTION")).points, "messages"))).toEqual(new Set([0]));
    const text = JSON.stringify(await series());
    expect(text).not.toContain("three");
  });

  test("failed webhook attempts are counted separately, and old minutes are removed", async () => {
    const attempted = (delivered: boolean) =>
      server.runtime.write((unit) =>
        server.runtime.bus.publish(unit, "webhookAttempted", { projectId, environment: "DEVELOPMENT", delivered }),
      );
    await attempted(true);
    await attempted(false);
    await attempted(false);
    const last = (await series()).points.at(-1);
    expect([last?.deliveries, last?.failedDeliveries]).toEqual([1, 2]);
    await server.services.rtcSessions.activity.flush();
    server.clock.advance(9 * 24 * 60 * MINUTE);
    await attempted(true);
    await server.services.rtcSessions.activity.flush();
    const kept = server.runtime.db.$client.query("SELECT count(*) AS count FROM activity_minutes").get();
    expect(kept).toEqual({ count: 1 });
  });
});
