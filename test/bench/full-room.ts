/** full-room: fifty participants in one room, two of them browsers, all sending sound and picture, nine tiles each */
import { chromium } from "playwright-core";
import { startServer } from "../e2e/sdk/server-process.ts";
import { CHROMIUM } from "../harness/browsers.ts";
import { runFullRoom, TILES } from "./harness/full-room.ts";
import { cpuMicros, rssMegabytes } from "./harness/processes.ts";
import { median, percentile, report } from "./harness/report.ts";

const participants = Number(process.argv[2] ?? 50);
const seconds = Number(process.argv[3] ?? 10);

// Limits are the defaults, frames of 16,384 bytes among them, but for those that count joins from one address.
const server = await startServer({ SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 1_000, RATE_LIMIT_RTC_TOKENS: 1_000 });
const browser = await chromium.launch(CHROMIUM);
const cpuBefore = cpuMicros(server.pid);
const startedAt = performance.now();
const room = await runFullRoom(server, browser, { participants, seconds });
const core = ((cpuMicros(server.pid) - cpuBefore) / ((performance.now() - startedAt) * 1_000)) * 100;
const rssMb = rssMegabytes(server.pid);
await browser.close();
await server.close();

for (const line of room.story) console.log(line);
report(
  "full-room",
  [
    { what: `join of ${participants}, p50`, value: median(room.joinMs), unit: "ms" },
    { what: "join, p95", value: percentile(room.joinMs, 0.95), unit: "ms" },
    {
      what: "video that arrived at the peer with the least",
      value: (100 * room.leastVideo) / room.expectedVideo,
      unit: "%",
      goal: { atLeast: 95 },
    },
    {
      what: "tiles with a picture, of the browser with the least",
      value: Math.min(...room.tiles),
      unit: `of ${TILES}`,
      goal: { atLeast: TILES },
    },
    { what: "longest freeze between the browsers", value: room.frozenMs, unit: "ms", goal: { atMost: 1_000 } },
    { what: "largest frame to the server", value: room.largestFrameBytes, unit: "bytes", goal: { atMost: 16_384 } },
    { what: "server", value: core, unit: "% of a core" },
    { what: "server, memory", value: rssMb, unit: "MB" },
  ],
  { ...room },
);
