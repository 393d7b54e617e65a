import { expect } from "bun:test";
import type { Browser } from "playwright-core";
import { chromium } from "playwright-core";
import { CHROMIUM } from "../../../harness/browsers.ts";
import { type Call, joinOnNewPage, receives, type Scene } from "../rtc-harness.ts";

/** The timeout of 15 s and the interval of the timer that checks it. */
const NOTICED_WITHIN_MS = 17_000;

export type Killed = { atMs: number };

/** Kills the browser of a fourth participant. The detection takes a while, so `isMissed` checks it later. */
export async function killsABrowser(scene: Scene, { roomId, ann }: Call): Promise<Killed> {
  const browser = await chromium.launch(CHROMIUM);
  await joinOnNewPage({ ...scene, browser }, roomId, "dee");
  await receives(ann.page, "dee");
  const pids = await processesOf(browser);
  const atMs = Date.now();
  for (const pid of pids) process.kill(pid, "SIGKILL");
  return { atMs };
}

/** Checks that the others were notified in time, and of the leave after the resume window. */
export async function isMissed({ ann }: Call, { atMs }: Killed): Promise<void> {
  const [missed, left] = await ann.page.evaluate(async () => [
    await window.rtc.push("participant.updated", { participant: { identity: "dee", state: "RECONNECTING" } }),
    await window.rtc.push("participant.left", { identity: "dee" }),
  ]);
  const noticedMs = Number(missed?.arrivedAtMs) - atMs;
  console.log(`a killed browser was noticed after ${(noticedMs / 1_000).toFixed(1)} s`);
  expect(noticedMs).toBeGreaterThan(0);
  expect(noticedMs).toBeLessThan(NOTICED_WITHIN_MS);
  expect(left).toMatchObject({ reason: "timeout" });
}

/** The processes of one browser, according to its debugging protocol. */
async function processesOf(browser: Browser): Promise<number[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = (await session.send("SystemInfo.getProcessInfo")) as { processInfo: { id: number }[] };
  return processInfo.map(({ id }) => id);
}
