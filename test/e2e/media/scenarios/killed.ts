import { expect } from "bun:test";
import type { Browser } from "playwright-core";
import { launchBrowser } from "../harness.ts";
import { type Call, entered, receives, type Scene } from "../rtc-harness.ts";

/** Silent for 15 s, and the turn of the clock that sees it. */
const NOTICED_WITHIN_MS = 17_000;

export type Killed = { atMs: number };

/** A fourth, in a browser of its own, which is killed. What follows takes a while: others go on, and `isMissed` tells. */
export async function killsABrowser(scene: Scene, { roomId, ann }: Call): Promise<Killed> {
  const browser = await launchBrowser();
  await entered({ ...scene, browser }, roomId, "dee");
  await receives(ann.page, "dee");
  const pids = await processesOf(browser);
  const atMs = Date.now();
  for (const pid of pids) process.kill(pid, "SIGKILL");
  return { atMs };
}

/** The others were told in time, and that it has left once the window in which it could resume was over. */
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

/** The processes of one browser, which its own protocol names. */
async function processesOf(browser: Browser): Promise<number[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = (await session.send("SystemInfo.getProcessInfo")) as { processInfo: { id: number }[] };
  return processInfo.map(({ id }) => id);
}
