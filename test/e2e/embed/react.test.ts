import { afterAll, afterEach, beforeAll, expect, test } from "bun:test";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { type RunningStoa, startStoa } from "../../../src/cli/start/start-stoa.ts";
import { bars, join as enter } from "../../../src/rtc-client/participant/participant.ts";
import { Stoa } from "../../../web/sdk/server.ts";
import { openChromium } from "../../harness/browsers.ts";
import { bundled, type Site, screenshotOf, serveSite, strictPolicy } from "./site.ts";

const ROOT = join(import.meta.dir, "../../..");
const MAX_GZIPPED_BYTES = 6 * 1024;

let server: RunningStoa;
let browser: Browser;
const sites: Site[] = [];
beforeAll(async () => {
  server = await startStoa();
  browser = await openChromium();
}, 180_000);
// A page that stays open encodes its camera beside the next tests.
afterEach(async () => {
  for (const context of browser.contexts()) await context.close();
});
afterAll(async () => {
  await browser.close();
  for (const site of sites) site.close();
  await server.stop();
});

/** Opens a page of another origin with this script; `faults` collects its errors. */
async function opened(script: string): Promise<{ page: Page; faults: string[] }> {
  const html =
    '<!doctype html><html lang="en"><title>App</title><div id="app"></div><script type="module" src="/app.js"></script></html>';
  const site = serveSite({ "/": html, "/app.js": script }, strictPolicy(server.url));
  sites.push(site);
  const page = await (await browser.newContext({ permissions: ["camera", "microphone"] })).newPage();
  const faults: string[] = [];
  page.on("pageerror", (error) => faults.push(error.message));
  page.on("console", (said) => said.type() === "error" && faults.push(said.text()));
  await page.goto(site.url);
  return { page, faults };
}

test("[21] <Conference> moves to another room when its token changes, in StrictMode with a strict policy", async () => {
  const stoa = new Stoa(server);
  const [first, second] = [
    await stoa.mintJoin({ room: "one", user: "anna" }),
    await stoa.mintJoin({ room: "two", user: "anna" }),
  ];
  const guest = await stoa.mintJoin({ room: "two", user: "guest" });
  const bot = await enter(guest.rtc.endpoint, guest.rtc.token);
  await bot.publishVideo(bars());
  const script = await bundled(`/** @jsxImportSource react */
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { Conference } from "${ROOT}/web/react/index.ts";
const rooms = ${JSON.stringify([first, second].map(({ rtc, chat }) => ({ endpoint: rtc.endpoint, token: rtc.token, chat })))};
function App() {
  const [at, setAt] = useState(0);
  return <><button onClick={() => setAt(1)}>Next room</button><div id="call"><Conference {...rooms[at]} captions="Words" /></div></>;
}
createRoot(document.getElementById("app")).render(<StrictMode><App /></StrictMode>);`);
  const { page, faults } = await opened(script);
  await page.getByText("anna (you)").waitFor();
  await page.getByText("Words").waitFor();
  await page.getByRole("button", { name: "Next room" }).click();
  await page.getByText("guest", { exact: true }).waitFor();
  await page.waitForFunction(() =>
    [...document.querySelectorAll("video")].some(({ videoWidth }) => videoWidth === 320),
  );
  await screenshotOf(page, "react-conference");
  const joins = (await stoa.connections.list().toArray()).filter(
    ({ participantIdentity }) => participantIdentity === "anna",
  );
  expect(joins.map(({ roomName }) => roomName).sort()).toEqual(["one", "two"]);
  while ((await stoa.rooms.participants(first.room.id)).length > 0) await Bun.sleep(50);
  expect(faults).toEqual([]);
  await bot.close();
}, 180_000);

for (const build of ["development", "production"] as const) {
  test(`[21] <Conference> in a recorded room, built for ${build}, chats in StrictMode and its tiles fill the height`, async () => {
    const stoa = new Stoa(server);
    const { rtc, chat, room } = await stoa.mintJoin({ room: `recorded-${build}`, user: "anna" });
    const props = { endpoint: rtc.endpoint, token: rtc.token, chat };
    const script = await bundled(
      `/** @jsxImportSource react */
import { StrictMode } from "react";
import { createRoot } from "react-dom/client";
import { Conference } from "${ROOT}/web/react/index.ts";
const app = <div style={{ height: "600px" }}><Conference {...${JSON.stringify(props)}} /></div>;
createRoot(document.getElementById("app")).render(<StrictMode>{app}</StrictMode>);`,
      build,
    );
    const { page, faults } = await opened(script);
    await page.getByText("anna (you)").waitFor();
    await stoa.recordings.start(room.id, {});
    await page.locator(".stoa-recording").waitFor();
    await page.getByRole("button", { name: "Chat" }).click();
    const log = page.getByRole("log");
    for (const text of ["Good morning", "Can you hear me?"]) {
      await page.getByRole("textbox", { name: "Message" }).fill(text);
      await page.getByRole("button", { name: "Send" }).click();
      await log.locator('[data-status="sent"]').getByText(text).waitFor();
    }
    await screenshotOf(page, `react-recorded-${build}`);
    const boxOf = async (selector: string) => {
      const box = await page.locator(selector).boundingBox();
      if (!box) throw new Error(`${selector} is not shown`);
      return { ...box, bottom: box.y + box.height };
    };
    const [main, tile, sign] = [await boxOf(".stoa-main"), await boxOf(".stoa-tile"), await boxOf(".stoa-recording")];
    // The stage has a margin of 12 pixels around the tiles.
    expect([tile.y - main.y, main.bottom - tile.bottom]).toEqual([12, 12]);
    expect(main.height).toBeGreaterThan(500);
    expect([sign.y > tile.y, sign.bottom < tile.bottom, sign.width < tile.width / 2]).toEqual([true, true, true]);
    expect(faults).toEqual([]);
    await page.context().close();
  }, 180_000);
}

test("the chat of <Conference> says why a message or a file failed, and tries again", async () => {
  const stoa = new Stoa(server);
  const { rtc, chat, conversation } = await stoa.mintJoin({ room: "failing", user: "anna" });
  const props = { endpoint: rtc.endpoint, token: rtc.token, chat };
  const { page } = await opened(
    await bundled(
      `/** @jsxImportSource react */
import { createRoot } from "react-dom/client";
import { Conference } from "${ROOT}/web/react/index.ts";
createRoot(document.getElementById("app")).render(<div style={{ height: "600px" }}><Conference {...${JSON.stringify(props)}} /></div>);`,
    ),
  );
  await page.getByRole("button", { name: "Chat" }).click();
  const log = page.getByRole("log");
  const retry = page.getByRole("button", { name: "Try again" });

  const mute = (mutedUntil: string | null) => stoa.conversations.updateMember(conversation.id, "anna", { mutedUntil });
  await mute(new Date(Date.now() + 3_600_000).toISOString());
  for (const text of ["Never said", "Said later"]) {
    await page.getByRole("textbox", { name: "Message" }).fill(text);
    await page.getByRole("button", { name: "Send" }).click();
    await log.locator('[data-status="failed"]').getByText(text).waitFor();
  }
  await screenshotOf(page, "react-failed-message");
  await log.getByRole("button", { name: "Delete" }).first().click();
  await mute(null);
  await retry.click();
  await log.locator('[data-status="sent"]').getByText("Said later").waitFor();
  await page.getByRole("alert").waitFor({ state: "detached" });

  await page.route("**/*", (route) => (route.request().method() === "PUT" ? route.abort() : route.continue()));
  await page
    .locator('input[type="file"]')
    .setInputFiles({ name: "note.txt", mimeType: "text/plain", buffer: Buffer.from("by hand") });
  await page.getByRole("alert").getByText("note.txt: The upload was interrupted.").waitFor();
  await screenshotOf(page, "react-failed-upload");
  await page.unroute("**/*");
  await retry.click();
  await log.getByText("note.txt (7 B)").waitFor();
  await page.getByRole("alert").waitFor({ state: "detached" });
  const messages = await Array.fromAsync(stoa.messages.history(conversation.id));
  expect(messages.flatMap(({ senderId, text }) => (senderId === "anna" ? [text] : [])).sort()).toEqual([
    "Said later",
    null,
  ]);
  await page.context().close();
}, 180_000);

test("the chat of <Conference> opens a file in a window of the click itself, which no browser blocks", async () => {
  const stoa = new Stoa(server);
  const { rtc, chat } = await stoa.mintJoin({ room: "files", user: "anna" });
  const props = { endpoint: rtc.endpoint, token: rtc.token, chat };
  const { page } = await opened(
    await bundled(
      `/** @jsxImportSource react */
import { createRoot } from "react-dom/client";
import { Conference } from "${ROOT}/web/react/index.ts";
createRoot(document.getElementById("app")).render(<Conference {...${JSON.stringify(props)}} />);`,
    ),
  );
  await page.getByRole("button", { name: "Chat" }).click();
  await page
    .locator('input[type="file"]')
    .setInputFiles({ name: "dot.gif", mimeType: "image/gif", buffer: Buffer.from("GIF89a") });
  const file = page.getByRole("log").getByRole("button", { name: "dot.gif (6 B)" });
  await file.waitFor();

  const popup = page.waitForEvent("popup");
  const opensAtOnce = await file.evaluate((button: HTMLElement) => {
    const { open } = window;
    let opened = 0;
    window.open = (...target) => {
      opened += 1;
      return open.call(window, ...target);
    };
    button.click();
    window.open = open;
    return opened;
  });
  expect(opensAtOnce).toBe(1);
  await (await popup).waitForURL(/\/v1\/storage\//);

  await page.route("**/download-url", (route) => route.abort());
  const empty = page.waitForEvent("popup");
  await file.click();
  await page.getByRole("alert").waitFor();
  const closed = await empty;
  if (!closed.isClosed()) await closed.waitForEvent("close");
  await page.context().close();
}, 180_000);

test("[21] the hooks add less than 6 KB to the SDK without the conference", async () => {
  const size = async (source: string) => {
    const entry = join(ROOT, "dist", "size-of.ts");
    await Bun.write(entry, source);
    const external = ["react", "react/jsx-runtime"];
    const { outputs } = await Bun.build({ entrypoints: [entry], target: "browser", minify: true, external });
    return Bun.gzipSync((await outputs[0]?.arrayBuffer()) ?? new ArrayBuffer()).byteLength;
  };
  const sdk = `export * from "${ROOT}/web/sdk/index.ts";`;
  const hooks =
    "StoaRoom, useRoom, useParticipants, useTracks, useSpeakers, useDevices, useChat, useConversation, useLiveStream, VideoTile";
  const beside = (await size(`${sdk} export { ${hooks} } from "${ROOT}/web/react/index.ts";`)) - (await size(sdk));
  console.log(`      stoa/react: ${beside} bytes gzipped beside the SDK`);
  expect(beside).toBeGreaterThan(500);
  expect(beside).toBeLessThan(MAX_GZIPPED_BYTES);
});
