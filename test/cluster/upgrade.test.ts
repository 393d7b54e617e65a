import { afterAll, beforeAll, expect, test } from "bun:test";
import { postgresLog } from "../../src/kernel/db/postgres-log.ts";
import { createLog } from "../../src/kernel/log.ts";
import { systemTimers } from "../../src/kernel/time/timers.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { openPage } from "../web/sdk/page.ts";
import { checkoutOf, upgrade } from "./checkout.ts";
import { Group, readyz } from "./group.ts";
import { NOTHING_WRONG } from "./history.ts";
import { giveAddress, Load } from "./load.ts";

const ADDITION = {
  "9000_next": "ALTER TABLE projects ADD COLUMN next TEXT; CREATE TABLE next (id TEXT PRIMARY KEY) STRICT;",
};

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await testPostgres();
}, 180_000);
afterAll(() => postgres.close());

test("two servers are upgraded, downgraded and migrated to another schema while in use", async () => {
  const page = openPage();
  const withoutAddress = giveAddress();
  const patch = checkoutOf("0.2.99");
  const next = checkoutOf("0.3.0", ADDITION);
  const logUrl = await postgres.database();
  const group = new Group(logUrl);
  const log = postgresLog(logUrl, { log: createLog({ level: "silent", format: "json" }), timers: systemTimers });

  const versions = async () => [...new Set((await log.members()).map(({ version }) => version))];

  await group.startFirst();
  await group.leader();
  await group.start("second");
  const load = await Load.start(group);
  try {
    await load.more(20);
    const [before] = await versions();
    await upgrade(group, load, patch.root);
    expect(await versions()).toEqual(["0.2.99"]);
    await upgrade(group, load);
    expect(await versions()).toEqual([before as string]);
    await upgrade(group, load, next.root);
    expect(await versions()).toEqual(["0.3.0"]);

    // A server of the version before follows what it does not know, and leaves the leading to others.
    const old = await group.start("third");
    await load.more(10);
    const head = (await readyz((await group.leader()).url))?.position ?? 0;
    while (((await readyz(old.url))?.position ?? 0) < head) await Bun.sleep(50);
    expect(await load.finish()).toEqual(NOTHING_WRONG);
    expect([load.refused, load.failed]).toEqual([[], []]);
  } finally {
    await log.close();
    await group.close();
    for (const checkout of [patch, next]) checkout.remove();
    withoutAddress();
    page.close();
  }
}, 180_000);
