import { afterAll, beforeAll, expect, test } from "bun:test";
import { postgresLog } from "../../src/kernel/db/postgres-log.ts";
import { createLog } from "../../src/kernel/log.ts";
import { systemTimers } from "../../src/kernel/timers.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { openPage } from "../sdk/page.ts";
import { Group, readyz } from "./group.ts";
import { NOTHING_WRONG } from "./history.ts";
import { Line } from "./line.ts";
import { giveAddress, Load } from "./load.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await testPostgres();
}, 180_000);
afterAll(() => postgres.close());

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

test("a leader cut off from Postgres steps down when another leads, and follows once it is back", async () => {
  const page = openPage();
  const withoutAddress = giveAddress();
  const line = await Line.to(postgres.port);
  const logUrl = await postgres.database();
  const group = new Group(logUrl.replace(`:${postgres.port}/`, `:${line.port}/`));
  try {
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
    // Nothing stale either: a server that has no way to know shows nothing.
    expect(await load.finish()).toEqual(NOTHING_WRONG);
  } finally {
    await group.close();
    line.close();
    withoutAddress();
    page.close();
  }
}, 180_000);
