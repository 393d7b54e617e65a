import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { openPage, type Page } from "../sdk/page.ts";
import { Group } from "./group.ts";
import { NOTHING_WRONG } from "./history.ts";
import { giveAddress, Load } from "./load.ts";

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
