// runs: alone

import { afterAll, beforeAll, expect, test } from "bun:test";
import type { Browser } from "playwright-core";
import { runFullRoom, TILES } from "../../bench/harness/full-room.ts";
import { openChromium } from "../../harness/browsers.ts";
import { type RealServer, realServer } from "../../harness/real-server.ts";

let server: RealServer;
let browser: Browser;
beforeAll(async () => {
  server = await realServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1_000, RATE_LIMIT_RTC_TOKENS: 1_000 });
  browser = await openChromium();
}, 180_000);
afterAll(async () => {
  await browser?.close();
  await server?.close();
});

test("[4] in a room of twelve publishers a browser shows nine tiles within the frame limit", async () => {
  const room = await runFullRoom({ url: server.url, apiKey: server.key }, browser, { participants: 12, seconds: 6 });
  console.log(
    `video ${room.leastVideo} of ${room.expectedVideo} packets at least, sound ${room.leastAudio} to ${room.mostAudio}, tiles ${room.tiles.join(" and ")}, largest frame ${room.largestFrameBytes} bytes; ${room.story.join("; ")}`,
  );
  expect(room.tiles).toEqual([TILES, TILES]);
  expect(room.leastVideo).toBeGreaterThan(room.expectedVideo / 2);
  // The browsers receive the loudest speakers.
  expect(room.mostAudio).toBeGreaterThan(0);
  expect(room.frames).toBeGreaterThan(0);
  expect(room.frozenMs).toBeLessThan(1_000);
  expect(room.largestFrameBytes).toBeLessThanOrEqual(16_384);
}, 180_000);
