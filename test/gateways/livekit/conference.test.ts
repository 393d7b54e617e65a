import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { openChromium, THREE_CAMERAS } from "../../harness/browsers.ts";
import { hears, sees } from "./harness/livekit-page.ts";
import { livekitPackages } from "./harness/packages.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
let browser: Browser;
let app: string;
let site: Bun.Server<undefined>;
beforeAll(async () => {
  stage = await openStage();
  browser = await openChromium(THREE_CAMERAS);
  app = await buildConference(stage.packages);
  site = serveBuilt(app);
}, 180_000);
afterAll(async () => {
  await Promise.all([browser?.close(), stage?.close(), site?.stop(true)]);
  rmSync(app, { recursive: true, force: true });
});

/** The page as an application of its own, outside this repository, that Vite builds. */
async function buildConference(packages: string): Promise<string> {
  const vite = await livekitPackages("vite-packages");
  const app = mkdtempSync(join(tmpdir(), "conference-"));
  copyFileSync(join(import.meta.dir, "harness/conference-page.jsx"), join(app, "main.jsx"));
  writeFileSync(join(app, "package.json"), '{ "name": "conference", "private": true, "type": "module" }');
  const body = '<div id="root"></div><script type="module" src="/main.jsx"></script>';
  const head = '<meta charset="utf-8"><title>conference</title><link rel="icon" href="data:,">';
  writeFileSync(join(app, "index.html"), `<!doctype html>${head}${body}`);
  symlinkSync(packages, join(app, "node_modules"));
  const build = Bun.spawn(["node", join(vite, "vite/bin/vite.js"), "build"], {
    cwd: app,
    env: { ...process.env, NODE_ENV: "production" },
    stdout: "ignore",
    stderr: "pipe",
  });
  const [said, code] = await Promise.all([new Response(build.stderr).text(), build.exited]);
  if (code !== 0) throw new Error(`Vite cannot build the page: ${said}`);
  return app;
}

const serveBuilt = (app: string) =>
  Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    fetch(request) {
      const { pathname } = new URL(request.url);
      return new Response(Bun.file(join(app, "dist", pathname === "/" ? "index.html" : pathname)));
    },
  });

/** What the pages have logged as an error, or thrown. */
const faults: string[] = [];

async function enter(room: string, identity: string, name: string): Promise<Page> {
  const token = await stage.token(room, identity, { name });
  const query = new URLSearchParams({ serverUrl: stage.wsUrl, token });
  const page = await (await browser.newContext({ permissions: ["camera", "microphone"] })).newPage();
  page.setDefaultTimeout(WAIT_MS);
  page.on("console", (message) => message.type() === "error" && faults.push(message.text()));
  page.on("pageerror", (error) => faults.push(error.message));
  await page.goto(`http://127.0.0.1:${site.port}/?${query}`);
  await page.waitForFunction(() => window.livekit?.state === "connected");
  return page;
}

/** A participant's video is shown in a tile of this kind. */
const tileOf = (page: Page, name: string, source: "camera" | "screen_share", frames: number) =>
  page.waitForFunction(
    ({ name, source, frames }) =>
      [...document.querySelectorAll(".lk-participant-tile")].some((tile) => {
        const video = tile.querySelector<HTMLVideoElement>(`video[data-lk-source="${source}"]`);
        const isTheirs = tile.textContent?.includes(name) === true;
        return isTheirs && (video?.getVideoPlaybackQuality().totalVideoFrames ?? 0) >= frames;
      }),
    { name, source, frames },
    { timeout: WAIT_MS },
  );

test(
  "VideoConference of @livekit/components-react has tiles, audio, chat, screen share and mute, including with our SDK",
  async () => {
    const [ann, ben] = [await enter("conference", "ann", "Ann"), await enter("conference", "ben", "Ben")];
    await Promise.all([tileOf(ann, "Ben", "camera", 15), tileOf(ben, "Ann", "camera", 15)]);
    await Promise.all([hears(ann, "ben"), hears(ben, "ann")]);
    expect(await ann.locator(".lk-participant-tile").count()).toBe(2);

    for (const page of [ann, ben]) await page.locator(".lk-control-bar .lk-chat-toggle").click();
    await ann.locator(".lk-chat-form-input").fill("hello, Ben");
    await ann.locator(".lk-chat-form-button").click();
    await ben.locator(".lk-chat-entry", { hasText: "hello, Ben" }).waitFor();
    expect(await ben.locator(".lk-chat-entry").count()).toBe(1);
    for (const page of [ann, ben]) await page.locator(".lk-control-bar .lk-chat-toggle").click();

    for (const [source, kind] of [
      ["microphone", "audioinput"],
      ["camera", "videoinput"],
    ] as const) {
      const group = ann.locator(".lk-button-group", { has: ann.locator(`button[data-lk-source="${source}"]`) });
      const active = () => ann.evaluate((kind) => window.livekit.getActiveDevice(kind) as string, kind);
      const before = await active();
      await group.locator(".lk-button-menu").click();
      await group.locator(".lk-media-device-select li button").last().click();
      await ann.waitForFunction(([kind, before]) => window.livekit.getActiveDevice(kind) !== before, [
        kind,
        before,
      ] as const);
      // The menu stays open until something else is clicked.
      await ann.keyboard.press("Escape");
    }
    const frames = await ben.evaluate(() =>
      Math.max(...[...document.querySelectorAll("video")].map((one) => one.getVideoPlaybackQuality().totalVideoFrames)),
    );
    await Promise.all([tileOf(ben, "Ann", "camera", frames + 15), hears(ben, "ann")]);

    const screen = ann.locator('button[data-lk-source="screen_share"]');
    await screen.click();
    await tileOf(ben, "Ann", "screen_share", 1);
    await screen.click();
    await ben.waitForFunction(() => document.querySelector('video[data-lk-source="screen_share"]') === null);

    await ann.locator('button[data-lk-source="microphone"]').click();
    await ben.waitForFunction(() => !window.livekit.remoteParticipants.get("ann").isMicrophoneEnabled);

    const own = await stage.withStoa("conference", "own");
    await Promise.all([sees(own, "ann"), sees(own, "ben"), tileOf(ann, "Own", "camera", 15)]);
    await ben.locator(".lk-disconnect-button").click();
    await ann.waitForFunction(() => document.querySelectorAll(".lk-participant-tile").length === 2);
    await own.waitForFunction(() => window.seen.includes("left ben left"));
    expect(faults).toEqual([]);
    for (const page of [own, ann, ben]) await page.context().close();
  },
  8 * WAIT_MS,
);
