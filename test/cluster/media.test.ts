import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { until } from "../nodes/remote/until.ts";
import { Group, readyz } from "./group.ts";
import { NODE_NAME, NodeCall, WITH_NODES } from "./node-call.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await testPostgres();
}, 180_000);
afterAll(() => postgres.close());

let group: Group;
beforeEach(async () => {
  group = new Group(await postgres.database(), WITH_NODES);
});
afterEach(() => group.close());

/** The rooms whose people are counted, and the call of each. */
async function calls(): Promise<{ id: string; status: string; participantCount: number }[]> {
  const { status, body } = await group.call("GET", "/v1/calls");
  expect(status).toBe(200);
  return body;
}

test("after kill -9 of the leader media flows on without a leader, and participants stay in the room", async () => {
  await group.startFirst();
  const first = await group.leader();
  const second = await group.start("second");
  const call = await NodeCall.start(group);
  const { ada, ben } = call;
  const sessionId = ben.client.ack?.sessionId;
  const before = await calls();
  expect(before).toMatchObject([{ status: "LIVE", participantCount: 2 }]);
  // No server takes over until it may, and the node runs without a leader meanwhile.
  second.process.kill("SIGSTOP");
  await group.kill(first);
  for (const { client } of [ada, ben]) await until(() => client.closeCode ?? undefined);
  for (let times = 0; times < 5; times++) await ben.receives();
  expect(await readyz(second.url)).toBeNull();
  second.process.kill("SIGCONT");
  const acks = await Promise.all([ada.resume(), ben.resume()]);
  for (const ack of acks) expect(ack).toMatchObject({ mode: "resumed", serverName: NODE_NAME });
  expect(acks[1].sessionId).toBe(String(sessionId));
  const [seen] = acks[1].participants;
  expect(seen).toMatchObject({ identity: "ada", tracks: [{ kind: "video" }] });
  await ben.receives();
  // One who comes now meets them where they are.
  const cyd = await call.join("cyd");
  expect(cyd.client.ack?.serverName).toBe(NODE_NAME);
  await cyd.watch("ada");
  await ben.receives();
  expect([...ada.of("participant.left"), ...ben.of("participant.left"), ...ben.of("bye")]).toEqual([]);
  expect((await calls()).map(({ id, status }) => ({ id, status }))).toEqual([
    { id: String(before[0]?.id), status: "LIVE" },
  ]);
}, 180_000);

test("a leader that slept past its lease does not touch the new leader's calls", async () => {
  const sleeper = await group.startFirst();
  await group.leader();
  await group.start("second");
  const { ada, ben } = await NodeCall.start(group);
  sleeper.process.kill("SIGSTOP");
  await group.leader(sleeper);
  await Promise.all([ada.resume(), ben.resume()]);
  sleeper.process.kill("SIGCONT");
  await until(async () => (await readyz(sleeper.url))?.role === "standby");
  for (let times = 0; times < 5; times++) await ben.receives();
  expect(ben.client.closeCode).toBeNull();
  expect([...ada.of("participant.left"), ...ben.of("participant.left"), ...ben.of("bye")]).toEqual([]);
}, 180_000);
