import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { SQL } from "bun";
import { openDatabase } from "../../src/kernel/db/open.ts";
import { postgresLog } from "../../src/kernel/db/postgres-log.ts";
import { createLog } from "../../src/kernel/log.ts";
import { systemTimers } from "../../src/kernel/time/timers.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { openPage, type Page } from "../web/sdk/page.ts";
import { Group, readyz } from "./group.ts";
import { NOTHING_WRONG } from "./history.ts";
import { giveAddress, Load } from "./load.ts";

/** After this time Postgres takes the lock from a silent leader. */
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

test("a leader that slept past its lease answers nothing stale and follows the new leader", async () => {
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

test("writes wait while Postgres restarts, and nothing is lost", async () => {
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

test("a standby that returns at another address does not end reads while Postgres is unreachable", async () => {
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
  // Postgres' last confirmation has expired by then, so only the other server's promise lets the leader answer.
  const late = performance.now() + 2 * LEASE_MS;
  while (!load.reads.some(({ from }) => from > late)) await Bun.sleep(50);
  await postgres.start();
  await load.more(30);
  expect(await load.finish()).toEqual(NOTHING_WRONG);
}, 180_000);

test("after kill -9 of the leader under load nothing is lost, doubled, skipped or stale", async () => {
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

test("a standby that lacks trimmed records, or has a foreign or damaged file, starts from a snapshot and can lead", async () => {
  await group.startFirst();
  await group.leader();
  let standby = await group.start("second");
  const load = await Load.start(group);
  const caughtUp = async () => {
    const head = (await readyz((await group.leader()).url))?.position ?? 0;
    while (((await readyz(standby.url))?.position ?? 0) < head) await Bun.sleep(50);
  };
  const setAside = () => readdirSync(standby.dataDir).filter((file) => /^before-snapshot-\d+\.db$/.test(file)).length;
  await load.more(20);
  await group.stop(standby);
  await load.more(20);
  const logged = createLog({ level: "silent", format: "json" });
  const log = postgresLog(group.logUrl ?? "", { log: logged, timers: systemTimers });
  await log.truncate((await readyz((await group.leader()).url))?.position ?? 0);
  await log.close();
  standby = await group.start("second");
  await caughtUp();
  expect(setAside()).toBe(1);

  await group.stop(standby);
  const db = openDatabase(join(standby.dataDir, "stoa.db"));
  // The state that a disk leaves which loses a write, so that the next record does not fit.
  db.$client.run("UPDATE conversations SET last_seq = last_seq - 1");
  db.$client.close();
  standby = await group.start("second");
  await load.more(20);
  await caughtUp();
  while (setAside() < 2) await Bun.sleep(50);
  await caughtUp();

  await group.stop(standby);
  damageMessages(join(standby.dataDir, "stoa.db"));
  standby = await group.start("second");
  await load.more(20);
  while (setAside() < 3) await Bun.sleep(50);
  await caughtUp();
  await group.kill(await group.leader());
  expect((await group.leader()).name).toBe("second");
  await load.more(20);
  expect(await load.finish()).toEqual(NOTHING_WRONG);
}, 300_000);

/** Overwrites the first pages of the messages and their indexes, which a start does not read. */
function damageMessages(path: string): void {
  const { $client: client } = openDatabase(path, { readonly: true });
  const roots = client
    .query<{ page: number }, []>(
      "SELECT rootpage AS page FROM sqlite_schema WHERE tbl_name = 'messages' AND rootpage > 0",
    )
    .all();
  client.close();
  const bytes = readFileSync(path);
  for (const { page } of roots) bytes.fill(0xff, (page - 1) * 4_096, page * 4_096);
  writeFileSync(path, bytes);
}
