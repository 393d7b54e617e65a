import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { SQL } from "bun";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { openPage, type Page } from "../sdk/page.ts";
import { Group, readyz } from "./group.ts";
import { NOTHING_WRONG } from "./history.ts";
import { giveAddress, Load } from "./load.ts";

/** After it Postgres takes the lock from a leader that said nothing. */
const LEASE_MS = 5_000;

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await testPostgres();
}, 180_000);
afterAll(() => postgres.close());

let group: Group;
let page: Page;
let withoutAddress: () => void;
beforeEach(async () => {
  page = openPage();
  withoutAddress = giveAddress();
  group = new Group(await postgres.database());
});
afterEach(async () => {
  await group.close();
  withoutAddress();
  page.close();
});

test("a leader that slept past its lease shows nothing stale, and follows the one that leads since", async () => {
  await group.startFirst();
  await group.start("second");
  const load = await Load.start(group);
  await load.more(30);
  const sleeper = await group.leader();
  sleeper.process.kill("SIGSTOP");
  await group.leader(sleeper);
  await load.more(30);
  sleeper.process.kill("SIGCONT");
  // Asked directly, not through what stands for a load balancer: no answer of its own is older than the other's.
  const path = "/v1/chat/conversations/history/messages?limit=1";
  for (let state = await readyz(sleeper.url); state?.role !== "standby"; state = await readyz(sleeper.url)) {
    const known = Math.max(...load.acknowledged.map(({ seq }) => seq));
    const headers = { authorization: `Bearer ${group.key}` };
    const response = await fetch(`${sleeper.url}${path}`, { headers, keepalive: false }).catch(() => null);
    if (response?.ok) expect((await response.json()).data[0].seq).toBeGreaterThanOrEqual(known);
    await Bun.sleep(5);
  }
  await load.more(30);
  expect(await load.finish()).toEqual(NOTHING_WRONG);
}, 180_000);

test("Postgres restarts: writes wait, the leader goes on, nothing is lost", async () => {
  await group.startFirst();
  await group.start("second");
  const load = await Load.start(group);
  await load.more(30);
  await postgres.kill();
  const before = load.reads.length;
  while (load.reads.length < before + 5) await Bun.sleep(20);
  await postgres.start();
  await load.more(30);
  expect(await load.finish()).toEqual(NOTHING_WRONG);
}, 180_000);

test("a standby that died and came back at another address does not end the reads while Postgres is away", async () => {
  await group.startFirst();
  await group.leader();
  const before = await group.start("second");
  await group.kill(before);
  const after = await group.start("second");
  expect(after.url).not.toBe(before.url);
  const load = await Load.start(group);
  const sql = new SQL(group.logUrl ?? "", { max: 1 });
  const isSo = async (condition: string, url: string) =>
    (await sql.unsafe(`SELECT 1 FROM stoa_members WHERE url = $1 AND ${condition}`, [url])).length > 0;
  // Longer ago than it was.
  await sql.unsafe("UPDATE stoa_members SET seen_at = now() - interval '1 minute' WHERE url = $1", [before.url]);
  while (!(await isSo("met IS NULL AND joined_at > now()", before.url))) await Bun.sleep(50);
  while (!(await isSo("met IS NOT NULL", after.url))) await Bun.sleep(50);
  await sql.close({ timeout: 0 });
  await load.more(30);
  await postgres.kill();
  // What Postgres has confirmed is over by then: only the other server can have said that nobody else leads.
  const late = performance.now() + 2 * LEASE_MS;
  while (!load.reads.some(({ from }) => from > late)) await Bun.sleep(50);
  await postgres.start();
  await load.more(30);
  expect(await load.finish()).toEqual(NOTHING_WRONG);
}, 180_000);

test("kill -9 of the leader under load: the standby leads, nothing is lost, doubled, skipped or stale", async () => {
  await group.startFirst();
  await group.start("second");
  const load = await Load.start(group);
  for (let round = 0; round < 2; round++) {
    await load.more(50);
    const leader = await group.leader();
    await group.kill(leader);
    const next = await group.leader();
    expect(next.name).not.toBe(leader.name);
    await load.more(50);
    await group.start(leader.name);
  }
  expect(await load.finish()).toEqual(NOTHING_WRONG);
  expect(load.refused).toEqual([]);
}, 180_000);
