import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { postgresLog } from "../../src/kernel/db/postgres-log.ts";
import { createLog } from "../../src/kernel/log.ts";
import { systemTimers } from "../../src/kernel/time/timers.ts";
import { freePort, type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { openPage, type Page } from "../web/sdk/page.ts";
import { BreakableConnection } from "./breakable-connection.ts";
import { Group, readyz } from "./group.ts";
import { NOTHING_WRONG } from "./history.ts";
import { giveAddress, Load } from "./load.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await testPostgres();
}, 180_000);
afterAll(() => postgres.close());

let page: Page;
let withoutAddress: () => void;
/** Everything that a test opens, in the order in which it is closed. */
let opened: { close(): void | Promise<void> }[];
beforeEach(() => {
  page = openPage();
  withoutAddress = giveAddress();
  opened = [];
});
afterEach(async () => {
  for (const one of opened) await one.close();
  withoutAddress();
  page.close();
});

/** Members tell of themselves, and look for others, every second. */
async function untilTheyKnowEachOther(logUrl: string, leader: string): Promise<void> {
  const log = postgresLog(logUrl, { log: createLog({ level: "silent", format: "json" }), timers: systemTimers });
  const seen = new Set<number>();
  while (seen.size < 4) {
    const members = await log.members();
    if (members.length > 1) seen.add(members.find(({ url }) => url === leader)?.position ?? 0);
    await Bun.sleep(100);
  }
  await log.close();
}

test("a leader cut off from Postgres steps down when another leads, and follows once reconnected", async () => {
  const line = await BreakableConnection.to(postgres.port);
  const logUrl = await postgres.database();
  const group = new Group(logUrl.replace(`:${postgres.port}/`, `:${line.port}/`));
  opened.push(group, line);
  const cutOff = await group.startFirst();
  await group.leader();
  await group.start("second", { COMMIT_LOG_URL: logUrl });
  const load = await Load.start(group);
  await load.more(30);
  await untilTheyKnowEachOther(logUrl, cutOff.url);
  line.break();
  const other = await group.leader(cutOff);
  expect(other.name).toBe("second");
  while ((await readyz(cutOff.url))?.role !== "standby") await Bun.sleep(50);
  await load.more(30);
  line.mend();
  const head = (await readyz(other.url))?.position ?? 0;
  while (((await readyz(cutOff.url))?.position ?? 0) < head) await Bun.sleep(50);
  // Nothing stale was shown either: a server that cannot know whether its data is current shows nothing.
  expect(await load.finish()).toEqual(NOTHING_WRONG);
}, 180_000);

test("clients cut off from the leader reconnect with the network and miss nothing", async () => {
  const group = new Group(await postgres.database());
  const line = await BreakableConnection.to(Number(new URL(group.balancer.url).port));
  opened.push(group, line);
  const leader = await group.startFirst();
  await group.leader();
  await group.start("second");
  await group.balancer.found();
  group.through = line.url;
  const load = await Load.start(group);
  await load.more(30);
  line.break();
  await load.cutOff();
  line.mend();
  await load.more(30);
  // No other server took over.
  expect((await group.leader()).name).toBe(leader.name);
  expect(await load.finish()).toEqual(NOTHING_WRONG);
}, 180_000);

test("an edge cut off from the leader notices it, and its clients keep their sockets", async () => {
  const group = new Group(await postgres.database());
  const port = await freePort();
  const line = await BreakableConnection.to(port);
  opened.push(group, line);
  await group.startFirst(undefined, { PORT: String(port), CLUSTER_URL: line.url });
  await group.leader();
  const edge = await group.start("edge", { ROLE: "edge" });
  const isReady = async () => (await readyz(edge.url))?.status === "ready";
  while (!(await isReady())) await Bun.sleep(50);
  group.through = edge.url;
  const load = await Load.start(group);
  await load.more(30);
  line.break();
  while (await isReady()) await Bun.sleep(50);
  line.mend();
  while (!(await isReady())) await Bun.sleep(50);
  await load.more(30);
  expect(await load.finish()).toEqual(NOTHING_WRONG);
}, 180_000);
