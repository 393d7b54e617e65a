import { afterAll, beforeAll, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { buildWeb } from "../../../bin/build-web.ts";
import { openChromium } from "../../harness/browsers.ts";
import { type ServerProcess, startServer } from "../sdk/server-process.ts";

const ROOT = join(import.meta.dir, "../../..");
const WEB = join(ROOT, "dist/web");
/** The test must click within this time, even on a busy machine. */
const RING_SECONDS = 20;

let server: ServerProcess;
let browser: Browser;
let anna: Page;
let ben: Page;
const errors: string[] = [];

beforeAll(async () => {
  if (!existsSync(join(WEB, "playground/index.html"))) await buildWeb(ROOT, WEB);
  [server, browser] = await Promise.all([startServer({ CHAT_RING_TIMEOUT_SECONDS: RING_SECONDS }), openChromium()]);
  [anna, ben] = await Promise.all([tab("anna", 1440, 900), tab("ben", 390, 844)]);
  await anna.locator('[data-identity="ben"]').waitFor();
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await server?.close();
});

async function tab(name: string, width: number, height: number): Promise<Page> {
  const context = await browser.newContext({ permissions: ["camera", "microphone"], viewport: { width, height } });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", ({ message }) => errors.push(message));
  await page.goto(`${server.url}/playground?name=${name}&room=ringing`);
  await click(page, "Join");
  return page;
}

const click = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click();
const ringing = () => ben.getByRole("alertdialog", { name: "Incoming call" });
const waitForResponse = (text: string) =>
  anna.locator("#ring li", { hasText: "ben" }).getByText(text, { exact: true }).waitFor();

/** Ben leaves the call and keeps the page open. */
async function benLeaves(): Promise<void> {
  await click(ben, "Leave");
  await ben.getByText("the others can ring you").waitFor();
  await anna.locator('[data-identity="ben"]').waitFor({ state: "detached" });
}

test("[17] a participant who has left is rung, answers and returns to the call", async () => {
  await benLeaves();
  await click(anna, "Ring");
  await waitForResponse("online");
  await click(anna, "Ring ben");
  await waitForResponse("ringing …");
  await ringing().getByText("anna is calling you to ringing.").waitFor();
  await screenshot("ringing");
  await ringing().getByRole("button", { name: "Answer" }).click();
  await anna.locator('[data-identity="ben"]').waitFor();
  await ben.locator('[data-identity="anna"]').waitFor();
  await waitForResponse("answered");
  expect(await ringing().count()).toBe(0);
}, 180_000);

test("[17] a declined ring is shown and can be repeated, and a ring can be cancelled", async () => {
  await benLeaves();
  await click(anna, "Ring ben");
  await ringing().getByRole("button", { name: "Decline" }).click();
  await waitForResponse("declined");
  await ringing().waitFor({ state: "detached" });
  expect(await anna.locator('[data-identity="ben"]').count()).toBe(0);
  await click(anna, "Ring ben");
  await ringing().waitFor();
  await click(anna, "Cancel");
  await ringing().waitFor({ state: "detached" });
}, 180_000);

test("[17] a missed ring is shown to both sides", async () => {
  await click(anna, "Ring ben");
  await ringing().waitFor();
  await waitForResponse("did not answer");
  await ringing().waitFor({ state: "detached" });
  const missed = ben.getByRole("status", { name: "Missed" });
  await missed.getByText("anna called you to ringing.").waitFor();
  await screenshot("missed");
  await missed.getByRole("button", { name: "Join now" }).click();
  await anna.locator('[data-identity="ben"]').waitFor();
  await missed.waitFor({ state: "detached" });
  expect(errors).toEqual([]);
}, 180_000);

/** With `PICTURES=FOLDER`, saves screenshots of both pages in light and dark at both widths. */
async function screenshot(name: string): Promise<void> {
  const folder = process.env.PICTURES;
  if (folder === undefined) return;
  for (const colorScheme of ["light", "dark"] as const)
    for (const [who, page] of Object.entries({ anna, ben })) {
      await page.emulateMedia({ colorScheme });
      const usual = page.viewportSize();
      for (const width of [390, 1440]) {
        await page.setViewportSize({ width, height: 844 });
        await page.screenshot({ path: join(folder, `${name}-${who}-${width}-${colorScheme}.png`) });
      }
      if (usual) await page.setViewportSize(usual);
    }
}
