// runs: alone

import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { type RunningStoa, startStoa } from "../../cli/stoa.ts";
import { type Api, createApi } from "../../harness/api.ts";
import { openChromium } from "../../harness/browsers.ts";
import { buildBinary } from "../binary/binary.ts";
import { type Call, openStage, type Scene, type Stage } from "./rtc-harness.ts";
import { exchangesData } from "./scenarios/data.ts";
import { restartsIce } from "./scenarios/ice-restart.ts";
import { comesAndGoes, timesJoins } from "./scenarios/joins-and-leaves.ts";
import { isMissed, type Killed, killsABrowser } from "./scenarios/killed.ts";
import { isMutedByTheServer, pausesAndMutes } from "./scenarios/mute.ts";
import { isRemovedForGood } from "./scenarios/removal.ts";
import { republishes } from "./scenarios/republish.ts";
import { resumesAfterACut } from "./scenarios/resume.ts";
import { movesBetweenLayers, publishesInLayers, wantsTheLayersOfTheTile } from "./scenarios/simulcast.ts";
import { threeSeeEachOther } from "./scenarios/three.ts";

const dataDir = mkdtempSync(join(tmpdir(), "stoa-compiled-"));
let server: RunningStoa;
let api: Api;
let stage: Stage;
let browser: Browser;

beforeAll(async () => {
  const ports = ["--port", "0", "--media-udp-port", "0", "--public-ip", "127.0.0.1"];
  // The tests join more often than the rate limit allows.
  const limits = ["--signaling-max-connections-per-window", "1000"];
  server = await startStoa([await buildBinary(), "dev", "--json", ...ports, ...limits, "--data-dir", dataDir], {
    env: { MEDIA_WARM_UP: "true" },
  });
  api = createApi(server.url, JSON.parse(server.out).apiKey);
  [stage, browser] = await Promise.all([openStage(api), openChromium()]);
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await stage?.close();
  server?.child.kill("SIGKILL");
  rmSync(dataDir, { recursive: true, force: true });
});

const scene = (): Scene => ({ stage, browser, api });

/** The tests run one after the other in one room; Ann and Cas stay in the call from the first test on. */
let call: Call;
let killed: Killed;

describe("[4] browsers in a call, through the binary", () => {
  test("three participants receive each other without interruption", async () => {
    call = await threeSeeEachOther(scene());
  }, 120_000);

  test("a fourth participant is seen until its browser is killed", async () => {
    killed = await killsABrowser(scene(), call);
  }, 60_000);

  test(
    "a dropped socket resumes without losing a frame, and the others are not notified",
    () => resumesAfterACut(scene(), call),
    60_000,
  );

  test("ten joins reach the first decoded frame in time", () => timesJoins(scene(), call), 120_000);

  test(
    "20 rounds with camera, microphone and screen together leave nothing behind",
    () => comesAndGoes(scene(), call),
    120_000,
  );

  test("a paused and a muted track stop and resume", () => pausesAndMutes(call), 60_000);

  test("a screen is unpublished and published again on the same sections", () => republishes(call), 60_000);

  test(
    "data travels both ways, reliably and lossily, to all or to those named",
    () => exchangesData(scene(), call),
    60_000,
  );

  test("an ICE restart moves to other sockets and keeps media flowing", () => restartsIce(scene(), call), 60_000);

  test(
    "the killed browser was noticed after 15 s, and has left after the window",
    () => isMissed(call, killed),
    60_000,
  );

  test("a mute by the server reaches all participants", () => isMutedByTheServer(scene(), call), 60_000);

  test("a removed participant cannot rejoin", () => isRemovedForGood(scene(), call), 60_000);

  test("a viewer switches between three simulcast layers within 2 s without a decoder error", async () => {
    await publishesInLayers(call);
    await movesBetweenLayers(call);
  }, 90_000);

  test("the height of a tile determines the layer and the wanted layers", () => wantsTheLayersOfTheTile(call), 60_000);
});

test("[10] stopping the binary tells participants to reconnect", async () => {
  const { ann, cas } = call;
  server.child.kill("SIGTERM");
  for (const { page } of [ann, cas]) {
    const end = await page.evaluate(async () => [await window.rtc.closing(), window.rtc.pushes.at(-1)]);
    expect(end).toMatchObject([{ code: 4500 }, { type: "bye", reason: "restart", action: "rejoin" }]);
  }
  expect(await server.child.exited).toBe(0);
}, 180_000);
