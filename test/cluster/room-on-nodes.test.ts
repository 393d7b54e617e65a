// runs: beside one
/** A room on three media nodes whose leader fails together with one of them. */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { join, type Participant } from "../../src/rtc-client/participant/participant.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { moreFrames, Streams } from "../nodes/remote/streams.ts";
import { until } from "../nodes/remote/until.ts";
import { Group } from "./group.ts";
import { untilDone } from "./load.ts";
import { startNode, WITH_NODES } from "./node-call.ts";

const REGIONS = { ada: "eu", ben: "us", cyd: "ap" } as const;
type Name = keyof typeof REGIONS;
const NAMES = Object.keys(REGIONS) as Name[];
const LASTING = ["ada", "cyd"] as const;

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

async function sites(roomId: string): Promise<string[]> {
  const { body } = await untilDone(() => group.call("GET", `/v1/rooms/${roomId}`));
  return (body.sites as { serverName: string }[]).map(({ serverName }) => serverName).sort();
}

test("the leader and a node are killed together: media among the others continues, and those of the node are back in 5 s", async () => {
  const first = await group.startFirst();
  await group.leader();
  const second = await group.start("second");
  await group.balancer.found();
  const nodes: Record<string, Bun.Subprocess> = {};
  for (const region of Object.values(REGIONS)) nodes[region] = await startNode(group, `${region}1`, region);
  const { body: room } = await untilDone(() => group.call("POST", "/v1/rooms", { name: "call", region: "eu" }));
  const streams = new Streams();
  const people = {} as Record<Name, Participant>;
  for (const name of NAMES) {
    const permissions = { publish: true };
    const mint = { participantIdentity: name, permissions, region: REGIONS[name] };
    const { body } = await untilDone(() => group.call("POST", `/v1/rooms/${room.id}/rtc-tokens`, mint));
    const person = await join(group.front, String(body.token));
    group.whenClosed(() => void person.close());
    people[name] = person;
    await streams.exchange(name, person);
  }
  const all = streams.among(NAMES);
  await moreFrames(all, 10);
  expect(await sites(room.id)).toEqual(["ap1", "eu1", "us1"]);

  const lasting = streams.among(LASTING);
  for (const stream of lasting) stream.longestGapMs = 0;
  const resumed = LASTING.map((name) => new Promise<void>((resolve) => people[name].once("reconnected", resolve)));
  const withBen = all.filter((stream) => !lasting.includes(stream));
  nodes.us?.kill("SIGKILL");
  await group.kill(first);
  for (const stream of withBen) stream.timestamps.length = 0;
  expect(await group.leader()).toBe(second);
  const ledAt = performance.now();
  await until(() => withBen.every(({ timestamps }) => timestamps.length > 1));
  console.log(`back ${Math.round(performance.now() - ledAt)} ms after there was a leader`);
  expect(performance.now() - ledAt).toBeLessThan(5_000);
  await Promise.all(resumed);
  await moreFrames(all, 10);
  const gaps = lasting.map(({ longestGapMs }) => Math.round(longestGapMs));
  console.log(`longest gaps of the others: ${gaps.join(" and ")} ms`);
  for (const gap of gaps) expect(gap).toBeLessThan(2_000);
  expect(await sites(room.id)).toEqual(["ap1", "eu1"]);
}, 180_000);
