import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser } from "playwright-core";
import { examine } from "../e2e/dashboard/screenshots.ts";
import { launch } from "../e2e/dashboard/stage.ts";
import { type TestPostgres, testPostgres } from "../harness/postgres.ts";
import { Group } from "./group.ts";

let postgres: TestPostgres;
let browser: Browser;
let group: Group;
beforeAll(async () => {
  browser = await launch();
  postgres = await testPostgres();
  group = new Group(await postgres.database());
}, 180_000);
afterAll(async () => {
  await browser.close();
  await group.close();
  await postgres.close();
});

test("the cluster page shows members, lag and the last take-over, and survives a change of leader", async () => {
  const first = await group.startFirst();
  await group.leader();
  await group.balancer.found();
  const context = await browser.newContext();
  const cookie = { name: "stoa_refresh", httpOnly: true, sameSite: "Strict" as const };
  await context.addCookies([{ ...cookie, value: group.refreshToken, domain: "127.0.0.1", path: "/v1/auth" }]);
  const page = await context.newPage();
  page.setDefaultTimeout(90_000);
  const errors: string[] = [];
  page.on("pageerror", ({ message }) => errors.push(message));
  await page.goto(`${group.front}/cluster`);
  await page.getByText("There is no standby.").waitFor();

  const second = await group.start("second");
  const edge = await group.start("edge", { ROLE: "edge" });
  const row = (url: string) => page.getByRole("row").filter({ hasText: url });
  await row(first.url).filter({ hasText: "Leader" }).filter({ hasText: "OK" }).waitFor();
  await row(second.url).filter({ hasText: "Standby" }).filter({ hasText: "OK" }).waitFor();
  await row(edge.url).filter({ hasText: "Edge" }).waitFor();
  await page.getByText("There is no standby.").waitFor({ state: "detached" });
  await page.getByText("No bucket is set").waitFor();
  await page.getByText(`by ${first.url}`).waitFor();
  await page.getByText("in term 1").waitFor();
  await examine(page, "cluster");

  await postgres.kill();
  await page.getByText("The commit log does not answer").waitFor();
  await examine(page, "cluster-without-log", "brief");
  await postgres.start();
  await row(second.url).filter({ hasText: "Standby" }).waitFor();

  await group.kill(first);
  await page.getByText(`by ${second.url}`).waitFor();
  await page.getByText("in term 2").waitFor();
  await row(second.url).filter({ hasText: "Leader" }).waitFor();
  await row(first.url).filter({ hasText: "Silent" }).waitFor();
  await page.getByText("If this server fails now").waitFor();
  await examine(page, "cluster-after-takeover", "brief");
  expect(errors).toEqual([]);
}, 180_000);
