import { expect } from "bun:test";
import type { Browser, Page } from "playwright-core";
import type { Api } from "../../harness/api.ts";
import { describeFlow, type Flow, frozenMs } from "./flow.ts";
import { receives, type Stage } from "./rtc-harness.ts";

const NAMES = ["ann", "ben", "cas"];
const WATCH_MS = 30_000;
const MAX_FROZEN_MS = 1_000;

/** One participant's half minute: what it sent, and of each other what it saw and heard. */
type HalfMinute = { sent: Flow; seen: Record<string, Flow>; energy: Record<string, { before: number; after: number }> };

/** Three who see and hear each other for half a minute: frames grow, sound is there, and nothing freezes for a second. */
export async function threeForHalfAMinute(stage: Stage, browser: Browser, api: Api, roomId: string): Promise<Page[]> {
  const pages = await Promise.all(
    NAMES.map(async (name) => {
      const page = await stage.page(browser);
      await stage.enter(page, (await api.mint(roomId, name)).token);
      return page;
    }),
  );
  for (const [at, page] of pages.entries()) {
    for (const other of NAMES.filter((_, i) => i !== at)) {
      const { frameHeight, energy } = await receives(page, other);
      expect(frameHeight).toBe(360);
      expect(energy).toBeGreaterThan(0);
    }
  }
  const minutes = await Promise.all(pages.map((page, at) => halfMinute(page, NAMES[at] ?? "")));
  for (const [at, { seen, energy }] of minutes.entries()) {
    for (const [name, flow] of Object.entries(seen)) {
      const sender = minutes[NAMES.indexOf(name)]?.sent;
      if (!sender) throw new Error(`nothing is known of ${name}`);
      console.log(`${NAMES[at]} of ${name}: ${describeFlow(flow, sender)}`);
      expect(flow.frames).toBeGreaterThan(0.8 * sender.frames);
      expect(frozenMs(flow, sender)).toBeLessThan(MAX_FROZEN_MS);
      expect(energy[name]?.after).toBeGreaterThan(energy[name]?.before ?? 0);
    }
  }
  return pages;
}

function halfMinute(page: Page, me: string): Promise<HalfMinute> {
  return page.evaluate(
    async ([others, watchMs]) => {
      const { rtc } = window;
      const mids = await Promise.all(others.map(async (name) => ({ name, ...(await rtc.watch(name)) })));
      const heard = () => Promise.all(mids.map(async ({ audio }) => (await rtc.inbound(audio)).totalAudioEnergy ?? 0));
      const before = await heard();
      const stopSent = rtc.countFrames(null);
      const stopSeen = mids.map(({ video }) => rtc.countFrames(video));
      await new Promise((wake) => setTimeout(wake, watchMs));
      const after = await heard();
      return {
        sent: stopSent(),
        seen: Object.fromEntries(mids.map(({ name }, i) => [name, stopSeen[i]?.() as Flow])),
        energy: Object.fromEntries(mids.map(({ name }, i) => [name, { before: before[i] ?? 0, after: after[i] ?? 0 }])),
      };
    },
    [NAMES.filter((name) => name !== me), WATCH_MS] as const,
  );
}
