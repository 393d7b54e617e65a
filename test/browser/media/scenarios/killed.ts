import { expect } from "bun:test";
import type { Browser } from "playwright-core";
import type { Api } from "../../../harness/api.ts";
import { launchBrowser } from "../harness.ts";
import { until } from "../page-media.ts";
import { type Call, entered, receives, type Scene } from "../rtc-harness.ts";

const NOTICED_WITHIN_MS = 15_000;

export type Killed = { atMs: number };
type Listed = { id: string; participantIdentity: string };
type Entry = { type: string; timestamp: string; data: Record<string, unknown> | null };

/** A browser is killed with -9: the others see it at once. What follows takes a while, and is for `killedHasLeft`. */
export async function killsABrowser(scene: Scene, { roomId, ann }: Call): Promise<Killed> {
  const browser = await launchBrowser();
  await entered({ ...scene, browser }, roomId, "dee");
  await receives(ann.page, "dee");
  const pids = await processesOf(browser);
  const atMs = Date.now();
  for (const pid of pids) process.kill(pid, "SIGKILL");
  const participant = { identity: "dee", state: "RECONNECTING" };
  await ann.page.evaluate((who) => window.rtc.push("participant.updated", { participant: who }), participant);
  expect(Date.now() - atMs).toBeLessThan(NOTICED_WITHIN_MS);
  return { atMs };
}

/** It has left after the window, and the silence of its packets had been noticed, too. */
export async function killedHasLeft({ api }: Scene, { roomId, ann }: Call, { atMs }: Killed): Promise<void> {
  const left = await ann.page.evaluate(() => window.rtc.push("participant.left", { identity: "dee" }));
  expect(left).toMatchObject({ reason: "timeout" });
  const lost = await silence(api, roomId);
  const noticedMs = Date.parse(lost.timestamp) - atMs;
  console.log(`the packets of a killed browser were missed after ${(noticedMs / 1_000).toFixed(1)} s`);
  expect(noticedMs).toBeLessThan(NOTICED_WITHIN_MS);
}

/** As its connection's timeline tells it; what happens is written down a moment later. */
function silence(api: Api, roomId: string): Promise<Entry> {
  const read = async (path: string) => JSON.parse((await api.call("GET", path)).text);
  return until(async () => {
    const connections: Listed[] = await read(`/v1/connections?roomId=${roomId}&limit=100`);
    const dee = connections.find(({ participantIdentity }) => participantIdentity === "dee");
    if (!dee) return undefined;
    const { events }: { events: Entry[] } = await read(`/v1/connections/${dee.id}`);
    return events.find(({ data }) => data?.path === "media" && data.reason === "consent_timeout");
  }, "the lost media of dee");
}

/** The processes of one browser, which its own protocol names. */
async function processesOf(browser: Browser): Promise<number[]> {
  const session = await browser.newBrowserCDPSession();
  const { processInfo } = (await session.send("SystemInfo.getProcessInfo")) as { processInfo: { id: number }[] };
  return processInfo.map(({ id }) => id);
}
