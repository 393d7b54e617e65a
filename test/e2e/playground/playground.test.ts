import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { existsSync } from "node:fs";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { buildWeb } from "../../../bin/build-web.ts";
import { layoutFor } from "../../../web/playground/layout.ts";
import { openChromium, THREE_CAMERAS } from "../../harness/browsers.ts";
import { realServer } from "../../harness/real-server.ts";
import { type ServerProcess, startServer } from "../sdk/server-process.ts";

const ROOT = join(import.meta.dir, "../../..");
const WEB = join(ROOT, "dist/web");

let server: ServerProcess;
let browser: Browser;
const errors: string[] = [];
beforeAll(async () => {
  if (!existsSync(join(WEB, "playground/index.html"))) await buildWeb(ROOT, WEB);
  [server, browser] = await Promise.all([startServer(), openChromium(THREE_CAMERAS)]);
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await server?.close();
});

async function tab(
  query = "",
  options: { width: number; height: number } = { width: 1440, height: 900 },
): Promise<Page> {
  const context = await browser.newContext({ permissions: ["camera", "microphone"], viewport: options });
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  page.on("pageerror", ({ message }) => errors.push(message));
  page.on("console", (message) => {
    if (/Content Security Policy/.test(message.text())) errors.push(message.text());
  });
  await page.goto(`${server.url}/playground${query}`);
  return page;
}

const click = (page: Page, name: string) => page.getByRole("button", { name, exact: true }).click();

/** Resolves when the tile's video plays. */
async function waitForVideo(page: Page, identity: string): Promise<void> {
  const frames = (id: string) =>
    document.querySelector<HTMLVideoElement>(`[data-identity="${id}"] video`)?.getVideoPlaybackQuality()
      .totalVideoFrames ?? 0;
  await page.waitForFunction(frames, identity, { timeout: 30_000 });
  const before = await page.evaluate(frames, identity);
  await page.waitForFunction(
    ([id, least]) =>
      (document.querySelector<HTMLVideoElement>(`[data-identity="${id}"] video`)?.getVideoPlaybackQuality()
        .totalVideoFrames ?? 0) > least,
    [identity, before + 10] as const,
    { timeout: 30_000 },
  );
}

test("[10] from 1 to 50 tiles are as large as possible, and the page scrolls before they are too small", () => {
  const columns = [1, 2, 4, 9, 16, 50].map((count) => layoutFor(count, 1400, 700).columns);
  expect(columns).toEqual([1, 2, 2, 3, 4, 8]);
  expect(layoutFor(2, 390, 700).columns).toBe(1);
  expect(layoutFor(50, 390, 700).columns).toBe(2);
});

test("[10] before a call, the camera and the level of the microphone are shown", async () => {
  const page = await tab();
  await page.getByText("Test your devices").click();
  await click(page, "Test the camera");
  await page.waitForFunction(() => (document.querySelector("video")?.videoWidth ?? 0) > 0);
  await click(page, "Test the microphone");
  await page.waitForFunction(() => (document.querySelector("meter")?.value ?? 0) > 0.1);
  await page.getByLabel("Suppress noise").check();
  await click(page, "Stop the camera");
  expect(await page.locator("video").count()).toBe(0);
  await page.context().close();
  expect(errors).toEqual([]);
}, 180_000);

test("[encryption] two tabs agree on keys, see each other, and show one safety number", async () => {
  const [anna, ben] = [await tab("?name=anna&room=secret"), await tab("?name=ben&room=secret")];
  for (const page of [anna, ben]) {
    await page.getByLabel("Encrypt without a passphrase").check();
    await click(page, "Join");
  }
  await Promise.all([waitForVideo(anna, "ben"), waitForVideo(ben, "anna")]);
  const number = (page: Page) => page.getByText("Safety number").innerText();
  expect(await number(anna)).toMatch(/^Safety number \d{5}( \d{5}){5}$/);
  expect(await number(ben)).toBe(await number(anna));
  for (const page of [anna, ben]) await page.context().close();
  expect(errors).toEqual([]);
}, 180_000);

describe("[10] the playground with stoa dev", () => {
  let anna: Page;
  let ben: Page;

  test("two tabs are in a call after one click each, with suggested names", async () => {
    anna = await tab("?name=anna");
    ben = await tab();
    expect(await ben.getByLabel("Your name").inputValue()).toMatch(/^[a-z]+-[a-z]+$/);
    await anna.getByText("Microphones start muted").waitFor();
    await click(anna, "Join");
    await anna.getByText("Your microphone is muted").waitFor();
    await ben.getByLabel("Your name").fill("ben");
    await click(ben, "Join");
    await anna.locator('[data-identity="ben"]').waitFor();
    await click(anna, "Microphone");
    await waitForVideo(ben, "anna");
    await ben.locator('[data-identity="anna"].speaking').waitFor({ timeout: 60_000 });
  }, 180_000);

  test("they chat with typing, a message, a reaction, a read receipt and a file", async () => {
    await anna.getByLabel("Message").fill("hello ben");
    await ben.getByText("anna is typing").waitFor();
    await click(anna, "Send");
    const message = ben.locator(".message", { hasText: "hello ben" });
    await message.waitFor();
    await anna.getByText("read by ben").waitFor();
    await message.hover();
    await message.getByRole("button", { name: "React with 🎉" }).click();
    await anna.locator(".reaction.given", { hasText: "🎉 1" }).waitFor();
    await ben.getByLabel("Send a file").setInputFiles({
      name: "notes.txt",
      mimeType: "text/plain",
      buffer: Buffer.from("notes"),
    });
    await anna.getByRole("button", { name: "notes.txt (1 KB)" }).waitFor();
  }, 180_000);

  test("a file is shared with everyone in the call", async () => {
    await click(ben, "Settings");
    await ben.getByLabel("Share a file").setInputFiles({
      name: "plan.bin",
      mimeType: "application/octet-stream",
      buffer: Buffer.alloc(300_000, "plan"),
    });
    const link = anna.getByLabel("Received files").getByRole("link", { name: "plan.bin" });
    await link.waitFor();
    const downloading = anna.waitForEvent("download");
    await link.click();
    const stream = await (await downloading).createReadStream();
    expect(await new Response(stream as never).text()).toBe("plan".repeat(75_000));
    await ben.keyboard.press("Escape");
  }, 180_000);

  test("statistics are shown, and a cut network is shown and recovers", async () => {
    await click(anna, "Stats");
    await anna.locator(".stats", { hasText: "VP8" }).waitFor();
    await click(anna, "Settings");
    await anna.getByLabel("Network").selectOption("offline");
    await anna.locator(".state.reconnecting").waitFor({ timeout: 30_000 });
    await anna.getByLabel("Network").selectOption("none");
    await anna.locator(".state.connected").waitFor({ timeout: 40_000 });
    await waitForVideo(ben, "anna");
  }, 180_000);

  test("a shared screen is shown large beside the participants, and devices can be switched", async () => {
    await anna.keyboard.press("Escape");
    await click(ben, "Screen");
    await anna.locator('.stage [data-identity="ben · screen"] video').waitFor();
    await anna.locator('.strip [data-identity="ben"]').waitFor();
    await waitForVideo(anna, "ben · screen");
    await click(ben, "Screen");
    await anna.locator('.grid [data-identity="ben"]').waitFor();
    await click(ben, "Settings");
    const camera = ben.locator("#settings label", { hasText: "Camera" }).locator("select");
    await camera.selectOption({ label: "fake_device_2" });
    await waitForVideo(anna, "ben");
  }, 180_000);

  test("a participant who leaves returns to the lobby and disappears for the other", async () => {
    await click(anna, "Leave");
    await anna.getByRole("button", { name: "Join" }).waitFor();
    await ben.locator('[data-identity="anna"]').waitFor({ state: "detached" });
    expect(errors).toEqual([]);
    for (const page of [anna, ben]) await page.context().close();
  }, 180_000);

  test("a viewer on a phone waits for a stream, sees it when the host goes live, and is notified of its end", async () => {
    const viewer = await tab("?room=show&name=vera&mode=viewer", { width: 390, height: 844 });
    await click(viewer, "Join");
    await viewer.getByText("Waiting for the host").waitFor();
    const host = await tab("?room=show&name=hans&mode=host");
    await click(host, "Join");
    await click(host, "Go live");
    await waitForVideo(viewer, "hans");
    expect(await viewer.getByRole("button", { name: "Camera" }).count()).toBe(0);
    const controls = await viewer
      .locator(".controls .button")
      .evaluateAll((all) => all.map((one) => one.getBoundingClientRect().top));
    expect(new Set(controls).size).toBe(1);
    const overflow = await viewer.evaluate(() => document.documentElement.scrollWidth - innerWidth);
    expect(overflow).toBeLessThanOrEqual(0);
    await click(host, "End stream");
    await viewer.getByRole("button", { name: "Join" }).waitFor();
    expect(errors).toEqual([]);
    for (const page of [viewer, host]) await page.context().close();
  }, 180_000);
});

describe("[10] the playground with stoa serve", () => {
  test("a token in the fragment opens the call and is in no requested URL", async () => {
    const running = await realServer();
    try {
      const { token } = await running.mint(await running.room("served"), "anna");
      const addresses: string[] = [];
      const context = await browser.newContext({ permissions: ["camera", "microphone"] });
      const page = await context.newPage();
      page.on("request", (request) => addresses.push(request.url(), request.headers().referer ?? ""));
      page.on("websocket", (socket) => addresses.push(socket.url()));
      await page.goto(`${running.url}/playground#${new URLSearchParams({ token })}`);
      await page.locator(".state.connected").waitFor();
      await waitForVideo(page, "anna");
      expect(addresses.some((address) => address.startsWith("ws"))).toBe(true);
      expect(addresses.filter((address) => address.includes(token))).toEqual([]);
      expect(new URL(page.url()).search).toBe("");

      await click(page, "Leave");
      expect(await page.getByText("mints tokens for your backend only").count()).toBe(1);
      const { token: pasted } = await running.mint(await running.room("pasted"), "ben");
      await page.getByLabel("Token").fill(pasted);
      await click(page, "Join");
      await page.locator(".state.connected").waitFor();
      expect([page.url(), ...addresses].filter((address) => address.includes(pasted))).toEqual([]);
      await context.close();
    } finally {
      await running.close();
    }
  }, 180_000);

  test("a link with an invalid token shows an error", async () => {
    const running = await realServer();
    try {
      const page = await browser.newPage();
      await page.goto(`${running.url}/playground#token=nonsense`);
      await page.getByText("The token is wrong or was revoked").waitFor();
    } finally {
      await running.close();
    }
  }, 180_000);
});
