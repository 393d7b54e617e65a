import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { openCall } from "./call.ts";
import { type Firefox, openFirefox } from "./firefox.ts";
import { openStage, type SitePage, type Stage } from "./stage.ts";

const GENEROUS = { CHAT_SEND_RATE_LIMIT: 1000 };

let stage: Stage;
let restarted: Stage;
let firefox: Firefox;
beforeAll(async () => {
  [stage, restarted, firefox] = await Promise.all([openStage(GENEROUS), openStage(GENEROUS), openFirefox()]);
}, 180_000);
afterAll(() => Promise.all([stage?.close(), restarted?.close(), firefox?.close()]));

const twoPages = async (on: Stage) => [await on.page(), await on.page()] as const;
/** Pages that stay open encode their cameras until the longest cut is over. */
const close = (pages: readonly SitePage[]) => Promise.all(pages.map((page) => page.context().close()));
const noErrors = (pages: readonly SitePage[]) => expect(pages.flatMap(({ errors }) => errors)).toEqual([]);

/** The calls run in parallel, each on its own network, so that the longest cut determines the duration. */
describe("[6] a call and a chat reconnect", () => {
  test.concurrent("Chromium and Firefox reconnect after 25 seconds without a packet", async () => {
    const chromium = await stage.page();
    const call = await openCall(stage, "cut-25", [chromium, await firefox.page(stage.siteUrl)]);
    await call.bothSeeAndHear();
    await call.cut();
    await call.say(3);
    await Bun.sleep(25_000);
    await call.heal();
    await call.bothSeeAndHear(90_000);
    await call.nothingLost();
    expect(await chromium.evaluate(() => window.states)).toContain("RECONNECTING");
    noErrors([chromium]);
  }, 240_000);

  test.concurrent("two pages reconnect after 5 seconds without a packet, without a leave", async () => {
    const pages = await twoPages(stage);
    const call = await openCall(stage, "cut-5", pages);
    await call.bothSeeAndHear();
    await call.cut();
    await call.say(3);
    await Bun.sleep(5_000);
    await call.heal();
    await call.bothSeeAndHear();
    await call.nothingLost();
    for (const page of pages) {
      expect(await page.evaluate(() => window.seen.filter((line) => line.startsWith("left")))).toEqual([]);
    }
    noErrors(pages);
    await close(pages);
  }, 240_000);

  test.concurrent("two pages reconnect after the server's process was restarted, and after it was killed", async () => {
    const pages = await twoPages(restarted);
    const call = await openCall(restarted, "restart", pages);
    await call.bothSeeAndHear();
    for (const signal of ["SIGTERM", "SIGKILL"] as const) {
      await call.say(2);
      const restarting = restarted.server.restart(signal);
      await call.say(3);
      await restarting;
      await call.bothSeeAndHear(90_000);
      await call.nothingLost();
    }
    noErrors(pages);
    await close(pages);
  }, 240_000);
});
