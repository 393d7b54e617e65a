import { afterAll, beforeAll, expect, test } from "bun:test";
import { copyFileSync } from "node:fs";
import { join } from "node:path";
import type { Page } from "playwright-core";
import { hears, sees } from "./harness/livekit-page.ts";
import { openStage, type Stage, WAIT_MS } from "./harness/stage.ts";

let stage: Stage;
let site: Bun.Server<undefined>;
beforeAll(async () => {
  stage = await openStage();
  site = await serveConference(stage.packages);
}, 180_000);
afterAll(async () => {
  await stage?.close();
  await site?.stop(true);
});

/** The page, built where its packages are installed. */
async function serveConference(packages: string) {
  const entry = join(packages, "..", `conference-page-${process.pid}.jsx`);
  copyFileSync(join(import.meta.dir, "harness/conference-page.jsx"), entry);
  const define = { "process.env.NODE_ENV": '"production"' };
  const { outputs } = await Bun.build({ entrypoints: [entry], target: "browser", define });
  const [script, style] = ["js", "css"].map((kind) => outputs.find(({ path }) => path.endsWith(`.${kind}`)));
  return Bun.serve({
    port: 0,
    hostname: "127.0.0.1",
    routes: {
      "/page.js": new Response(script, { headers: { "content-type": "text/javascript" } }),
      "/page.css": new Response(style, { headers: { "content-type": "text/css" } }),
    },
    fetch: () =>
      new Response(
        `<!doctype html><meta charset=utf-8><title>conference</title><link rel=stylesheet href=/page.css>
        <div id=root></div><script type=module src=/page.js></script>`,
        { headers: { "content-type": "text/html" } },
      ),
  });
}

async function enter(room: string, identity: string, name: string): Promise<Page> {
  const token = await stage.token(room, identity, { name });
  const query = new URLSearchParams({ serverUrl: stage.wsUrl, token });
  const page = await stage.open(`http://127.0.0.1:${site.port}/?${query}`);
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
  "VideoConference of @livekit/components-react has tiles, audio, chat, screen share and mute, also with our SDK",
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
    for (const page of [own, ann, ben]) await page.context().close();
  },
  5 * WAIT_MS,
);
