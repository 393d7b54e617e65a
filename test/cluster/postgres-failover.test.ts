import { afterAll, beforeAll, expect, test } from "bun:test";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { openPage } from "../web/sdk/page.ts";
import { BreakableConnection } from "./breakable-connection.ts";
import { Group } from "./group.ts";
import { NOTHING_WRONG } from "./history.ts";
import { giveAddress, Load } from "./load.ts";

let postgres: TestPostgres;
beforeAll(async () => {
  postgres = await testPostgres();
}, 180_000);
afterAll(() => postgres.close());

test("a failover of Postgres to its synchronous replica loses, doubles, skips and repeats nothing", async () => {
  const page = openPage();
  const withoutAddress = giveAddress();
  const line = await BreakableConnection.to(postgres.port);
  const logUrl = (await postgres.database()).replace(`:${postgres.port}/`, `:${line.port}/`);
  const replica = await postgres.synchronousReplica();
  const group = new Group(logUrl);
  try {
    await group.startFirst();
    await group.leader();
    await group.start("second");
    const load = await Load.start(group);
    await load.more(50);
    await postgres.kill();
    await replica.promote();
    line.pointTo(replica.port);
    await load.more(50);
    // In addition, a server dies.
    const leader = await group.leader();
    await group.kill(leader);
    expect((await group.leader()).name).not.toBe(leader.name);
    await load.more(50);
    expect(await load.finish()).toEqual(NOTHING_WRONG);
    expect(load.refused).toEqual([]);
  } finally {
    await group.close();
    line.close();
    withoutAddress();
    page.close();
  }
}, 180_000);
