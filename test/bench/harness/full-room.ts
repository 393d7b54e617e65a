/** A full room through the server's own socket: peers of ours and real browsers, all sending, nine tiles shown each. */
import type { Browser, Page } from "playwright-core";
import { describeFlow, type Flow, frozenMs } from "../../e2e/media/flow.ts";
import { openStage } from "../../e2e/media/rtc-harness.ts";
import { createApi } from "../../harness/api.ts";
import { type Crowd, joinCrowd } from "./crowd-in-a-room.ts";

export const TILES = 9;
/** The bandwidth is found step by step, which takes longer on a busy machine, so the last tile may take this long to appear. */
const TILES_COME_WITHIN_MS = 60_000;
const BROWSERS = ["browser-1", "browser-2"] as const;

type FullRoom = {
  joinMs: number[];
  /** Video packets per peer of ours and second. */
  leastVideo: number;
  expectedVideo: number;
  leastAudio: number;
  mostAudio: number;
  /** How long the video of each browser stood still for the other. */
  frozenMs: number;
  frames: number;
  story: string[];
  /** Sections of the browsers on which packets arrived, of `TILES` each. */
  tiles: number[];
  largestFrameBytes: number;
};

type BrowserView = { sent: Flow; seen: Flow; tiles: number; largestFrameBytes: number };

export async function runFullRoom(
  server: { url: string; apiKey: string },
  browser: Browser,
  { participants, seconds }: { participants: number; seconds: number },
): Promise<FullRoom> {
  const api = createApi(server.url, server.apiKey);
  const roomId = await api.room();
  const stage = await openStage(api);
  const pages: Page[] = [];
  let crowd: Crowd | null = null;
  try {
    for (const name of BROWSERS) {
      const page = await stage.page(browser);
      await page.evaluate(() => {
        const { send } = WebSocket.prototype;
        window.largestFrameBytes = 0;
        WebSocket.prototype.send = function (data) {
          window.largestFrameBytes = Math.max(window.largestFrameBytes, new Blob([String(data)]).size);
          send.call(this, data);
        };
      });
      await stage.enter(page, (await api.mint(roomId, name)).token, TILES);
      pages.push(page);
    }
    const peers = Array.from({ length: participants - BROWSERS.length }, (_, i) => `peer-${i}`);
    crowd = await joinCrowd({ api, url: server.url, roomId, names: peers, tiles: TILES });
    const shown = peers.slice(0, TILES - 1);
    for (const [at, page] of pages.entries()) await watchTiles(page, [BROWSERS[1 - at] ?? "", ...shown]);
    const viewing = Promise.all(pages.map((page, at) => view(page, BROWSERS[1 - at] ?? "", seconds)));
    const [views, figures] = await Promise.all([viewing, crowd.talk(seconds, viewing)]);
    const [first, second] = views;
    if (!first || !second) throw new Error("no browsers");
    const both = [
      [first.seen, second.sent],
      [second.seen, first.sent],
    ] as const;
    return {
      ...figures,
      joinMs: crowd.joinMs,
      frozenMs: Math.max(...both.map(([seen, sent]) => frozenMs(seen, sent))),
      frames: Math.min(...both.map(([seen]) => seen.frames)),
      story: both.map(([seen, sent]) => describeFlow(seen, sent)),
      tiles: views.map(({ tiles }) => tiles),
      largestFrameBytes: Math.max(...views.map(({ largestFrameBytes }) => largestFrameBytes)),
    };
  } finally {
    await crowd?.leave();
    await Promise.all(pages.map((page) => page.close()));
    await stage.close();
  }
}

function watchTiles(page: Page, names: string[]): Promise<void> {
  return page.evaluate(async (shown) => {
    for (const name of shown) await window.rtc.watch(name);
  }, names);
}

function view(page: Page, other: string, seconds: number): Promise<BrowserView> {
  return page.evaluate(
    async ([name, ms, wanted, withinMs]) => {
      const { rtc } = window;
      const { video } = await rtc.watch(name);
      await rtc.decoded(video, 1);
      const stopSent = rtc.countFrames(null);
      const stopSeen = rtc.countFrames(video);
      const sleep = (forMs: number) => new Promise((wake) => setTimeout(wake, forMs));
      const countTiles = async () => {
        let tiles = 0;
        for (const report of (await rtc.pc.getStats()).values())
          if (report.type === "inbound-rtp" && report.kind === "video" && report.packetsReceived > 0) tiles++;
        return tiles;
      };
      await sleep(ms);
      const flows = { sent: stopSent(), seen: stopSeen() };
      const deadline = performance.now() + withinMs;
      let tiles = await countTiles();
      for (; tiles < wanted && performance.now() < deadline; tiles = await countTiles()) await sleep(200);
      return { ...flows, tiles, largestFrameBytes: window.largestFrameBytes };
    },
    [other, seconds * 1_000, TILES, TILES_COME_WITHIN_MS] as const,
  );
}

declare global {
  interface Window {
    largestFrameBytes: number;
  }
}
