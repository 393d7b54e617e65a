import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { openPage, type Page } from "../web/sdk/page.ts";
import { type GuideBalancer, startBalancers } from "./balancers.ts";
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
let folder: string;
let balancers: GuideBalancer[] = [];
let withoutAddress: () => void;
beforeEach(async () => {
  page = openPage();
  withoutAddress = giveAddress();
  folder = mkdtempSync(join(tmpdir(), "stoa-balancers-"));
  group = new Group(await postgres.database());
});
afterEach(async () => {
  await group.close();
  for (const balancer of balancers) await balancer.stop();
  rmSync(folder, { recursive: true, force: true });
  withoutAddress();
  page.close();
});

const PROJECT = "/v1/project";

async function ask(url: string, path = PROJECT, init: RequestInit = {}): Promise<Response | null> {
  const headers = { authorization: `Bearer ${group.key}`, "content-type": "application/json", ...init.headers };
  return fetch(`${url}${path}`, { ...init, headers, keepalive: false }).catch(() => null);
}

/** Until a balancer has found the leader, it tries its servers one after another. */
async function answers({ url }: GuideBalancer): Promise<void> {
  for (let inRow = 0; inRow < 10; await Bun.sleep(100)) inRow = (await ask(url))?.status === 200 ? inRow + 1 : 0;
}

test("the guide's HAProxy, nginx and Caddy reach the leader, and the next one after its death", async () => {
  const first = await group.startFirst();
  const second = await group.start("second");
  balancers = await startBalancers(folder, [first.url, second.url]);
  await Promise.all(balancers.map(answers));
  const load = await Load.start(group, { senders: 6, listeners: 3, fronts: balancers.map(({ url }) => url) });
  await load.more(60);

  /** No client sees a standby's error. */
  const settled = async () => {
    for (const { name, url } of balancers) {
      const asked = await Promise.all(Array.from({ length: 10 }, () => ask(url)));
      expect({ name, answers: asked.map((answer) => answer?.status) }).toEqual({ name, answers: Array(10).fill(200) });
      const user = { method: "POST", body: JSON.stringify({ userId: "a-user" }) };
      expect((await ask(url, "/v1/chat/tokens", user))?.status).toBe(201);
    }
  };
  await settled();

  const before = await group.leader();
  // Sent again by a balancer or by its sender, a request with a key is carried out once.
  const rooms = balancers.map(({ name, url }) => makeRoom(url, name));
  await group.kill(before);
  await group.leader();
  expect(await Promise.all(rooms)).toEqual(balancers.map(() => 201));
  await Promise.all(balancers.map(answers));
  await settled();
  await load.more(60);
  expect(await load.finish()).toEqual(NOTHING_WRONG);
}, 240_000);

async function makeRoom(url: string, name: string): Promise<number> {
  for (;;) {
    const headers = { "idempotency-key": `room-${name}` };
    const answer = await ask(url, "/v1/rooms", { method: "POST", headers, body: JSON.stringify({ name }) });
    if (answer !== null && answer.status < 500) return answer.status;
    await Bun.sleep(100);
  }
}
