import { afterAll, beforeAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Browser, chromium, type Page } from "playwright-core";
import { Stoa } from "../../web/sdk/server.ts";
import { PROGRAM, startStoa } from "../cli/stoa.ts";
import { type Firefox, launchFirefox } from "../e2e/sdk/firefox.ts";
import { joinRoom } from "../e2e/sdk/page-api.ts";
import type { Scripted } from "../e2e/sdk/scripted.ts";
import { serveSite } from "../e2e/sdk/stage.ts";
import { CHROMIUM } from "../harness/browsers.ts";
import { type Lan, openLan } from "../harness/namespaces.ts";
import { keyPath, prepareData } from "../ops/served.ts";
import { aiortc, buildPion, type Client, gstreamer, pion, tunnel } from "./clients.ts";

const MACHINES = ["server", "gst", "gsth264", "aiortc", "player", "pion", "pionplayer", "chromium", "firefox"] as const;
const LOST_PER_THOUSAND = 30;
/** Long enough for every client to check its consent several times. */
const SECONDS = 20;
/**
 * The number of some three hundred frames that must arrive: a busy machine decodes slowly, but a video that stands still never
 * reaches it.
 */
const FRAMES = 150;
/** aiortc decodes in Python. */
const FRAMES_OF_AIORTC = 45;
/** Go decodes keyframes, the rest it puts together. */
const KEYFRAMES_OF_PION = 3;
const PATIENCE_MS = 150_000;

const work = mkdtempSync(join(tmpdir(), "stoa-foreign-"));
let lan: Lan<(typeof MACHINES)[number]>;
let site: Bun.Server<undefined>;
let stoa: Stoa;
let browser: Browser;
let firefox: Firefox;
let pionProgram: string;
const stops: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  lan = await openLan(...MACHINES);
  for (const name of MACHINES) if (name !== "server") await lan.machines[name].lose(LOST_PER_THOUSAND);
  site = await serveSite(lan.address);
  pionProgram = await buildPion(work);
  const { server } = lan.machines;
  const dataDir = join(work, "data");
  await prepareData(dataDir);
  const media = ["--media-udp-port", "7001", "--media-workers", "1", "--public-ip", server.address];
  const { url, child } = await startStoa([
    ...[...server.prefix, ...PROGRAM, "serve", "--host", server.address, "--data-dir", dataDir],
    ...media,
  ]);
  stops.push(async () => {
    child.kill("SIGKILL");
    await child.exited;
  });
  stoa = new Stoa({ url, apiKey: readFileSync(keyPath(dataDir), "utf8").trim() });
  [browser, firefox] = await Promise.all([
    chromium.launch({
      ...CHROMIUM,
      executablePath: lan.machines.chromium.wrapper(CHROMIUM.executablePath, work),
      args: [...CHROMIUM.args, `--unsafely-treat-insecure-origin-as-secure=${site.url.origin}`],
    }),
    launchFirefox({
      prefix: lan.machines.firefox.prefix,
      preferences: { "media.devices.insecure.enabled": true, "media.getusermedia.insecure.enabled": true },
      async reach(inside) {
        const way = await tunnel(lan.machines.firefox, inside);
        stops.push(way.stop);
        return way.url;
      },
    }),
  ]);
}, 300_000);

afterAll(async () => {
  await Promise.all([browser?.close(), firefox?.close()]);
  for (const stop of stops.reverse()) await stop();
  await site?.stop(true);
  await lan?.close();
  rmSync(work, { recursive: true, force: true });
});

async function start<T>(client: Client<T>): Promise<Client<T>> {
  stops.push(client.stop);
  return client;
}

/** Frames decoded so far, by participant. */
const decoded = (page: Scripted) =>
  page.evaluate(async () => {
    const frames: Record<string, number> = {};
    for (const element of document.querySelectorAll("video")) {
      const { mozPaintedFrames = 0 } = element as { mozPaintedFrames?: number };
      const shown = Math.max(element.getVideoPlaybackQuality().totalVideoFrames, mozPaintedFrames);
      frames[element.id.replace("-camera", "").replace("-other", "")] = shown;
    }
    return frames;
  }, undefined);

/** Shows all videos at the same time, because a hidden video is not requested. */
function makeRoom(): void {
  const style = document.createElement("style");
  style.textContent = "video { display: inline-block !important; width: 160px !important; height: 90px !important }";
  document.head.append(style);
}

test(`every client publishes and watches for ${SECONDS} s while 3 % of all packets are lost, and frames are decoded`, async () => {
  const { id: roomId } = await stoa.rooms.create({ name: "foreign" });
  const mint = (participantIdentity: string, permissions: object) =>
    stoa.rtcTokens.mint(roomId, { participantIdentity, permissions });
  const door = async (kind: "whip" | "whep", identity: string) => {
    const { token, endpoint } = await mint(identity, kind === "whip" ? { publish: true } : {});
    return { url: `${endpoint.replace(/^ws/, "http").replace("/v1/rtc", "")}/${kind}/${roomId}`, token };
  };
  const { machines } = lan;
  const startedAt = Date.now();
  const encoders = [
    await start(await gstreamer(machines.gst, "VP8", await door("whip", "gst"), work)),
    await start(await gstreamer(machines.gsth264, "H264", await door("whip", "gsth264"), work)),
    await start(aiortc(machines.aiortc, "whip", await door("whip", "aiortc"))),
    await start(pion(pionProgram, machines.pion, "whip", await door("whip", "pion"))),
  ];
  const context = await browser.newContext({ permissions: ["camera", "microphone"] });
  const inChromium: Page = await context.newPage();
  await inChromium.goto(site.url.origin);
  const inFirefox = await firefox.page(site.url.origin);
  await joinRoom(inChromium, await mint("chromium", { publish: true }), ["camera", "microphone"], 180);
  await joinRoom(inFirefox, await mint("firefox", { publish: true }), ["camera", "microphone"], 180);
  for (const page of [inChromium, inFirefox] as Scripted[]) await page.evaluate(makeRoom, undefined);
  const player = await start(aiortc(machines.player, "whep", await door("whep", "player")));
  const inPion = await start(pion(pionProgram, machines.pionplayer, "whep", await door("whep", "pionplayer")));

  // Firefox comes without a decoder for H.264.
  const wanted = {
    chromium: ["gst", "gsth264", "aiortc", "pion", "firefox"],
    firefox: ["gst", "aiortc", "pion", "chromium"],
  };
  const report = async () => ({
    chromium: await decoded(inChromium),
    firefox: await decoded(inFirefox),
    aiortc: player.said()?.video ?? [],
    aiortcSound: player.said()?.audio ?? [],
    pion: inPion.said()?.video ?? [],
    pionPictures: inPion.said()?.pictures ?? [],
    encoders: encoders.map((encoder) => encoder.isRunning()),
  });
  const isEnough = (seen: Awaited<ReturnType<typeof report>>) =>
    wanted.chromium.every((name) => (seen.chromium[name] ?? 0) >= FRAMES) &&
    wanted.firefox.every((name) => (seen.firefox[name] ?? 0) >= FRAMES) &&
    seen.aiortc.filter((frames) => frames >= FRAMES_OF_AIORTC).length === 2 &&
    seen.pion.filter((frames) => frames >= FRAMES).length >= 2 &&
    seen.pionPictures.some((pictures) => pictures >= KEYFRAMES_OF_PION);
  for (;;) {
    await Bun.sleep(1_000);
    const seen = await report();
    const elapsedMs = Date.now() - startedAt;
    if (elapsedMs >= SECONDS * 1_000 && isEnough(seen)) {
      console.log(`      frames decoded in ${Math.round(elapsedMs / 1000)} s: ${JSON.stringify(seen)}`);
      break;
    }
    if (elapsedMs > PATIENCE_MS) throw new Error(`not enough frames of all participants: ${JSON.stringify(seen)}`);
  }
  // Nobody was removed on the way, and all participants are still in the room.
  expect(encoders.map((encoder) => encoder.isRunning())).toEqual([true, true, true, true]);
  const present: string[] = [];
  for await (const { identity } of stoa.rooms.participants(roomId)) present.push(identity);
  expect(present.sort()).toEqual(["aiortc", "chromium", "firefox", "gst", "gsth264", "pion", "pionplayer", "player"]);
}, 240_000);
