/** roster: joins into one room of thousands without media: delay and size of their answers, main thread, memory; `bin/bench roster [viewers] [a second]` */
import { loadavg } from "node:os";
import { SignalingClient } from "../../src/rtc-client/signaling-client.ts";
import { startServer } from "../e2e/sdk/server-process.ts";
import { createApi } from "../harness/api.ts";
import { cpuNanos, mainThreadNanos, ownMegabytes, untilIdle } from "./harness/processes.ts";
import { median, percentile, report } from "./harness/report.ts";

const [viewers = 3_000, perSecond = 100] = process.argv.slice(2).map(Number);
const MINTED_AT_ONCE = 50;

const server = await startServer({
  SIGNALING_MAX_CONNECTIONS_PER_WINDOW: 100_000,
  SIGNALING_MAX_PARTICIPANTS_PER_ROOM: 10_000,
  RATE_LIMIT_RTC_TOKENS: 100_000,
});
const api = createApi(server.url, server.apiKey);
const roomId = await api.room();
const mint = async (identity: string, publish: boolean) =>
  (await api.mint(roomId, identity, { permissions: { publish } })).token;
const tokens: string[] = [];
for (let from = 0; from < viewers; from += MINTED_AT_ONCE) {
  const some = Array.from({ length: Math.min(MINTED_AT_ONCE, viewers - from) }, (_, n) => `viewer-${from + n}`);
  tokens.push(...(await Promise.all(some.map((identity) => mint(identity, false)))));
}
const host = new SignalingClient({ url: server.url, token: await mint("host", true) });
await host.join();
await untilIdle(server.pid);

const [memoryBefore, cpuBefore, nanosBefore, startedAt] = [
  ownMegabytes(server.pid),
  cpuNanos(server.pid),
  mainThreadNanos(server.pid),
  performance.now(),
];
const joinMs: number[] = [];
const ackBytes: number[] = [];
let pushes = 0;
const clients: SignalingClient[] = [];
const joining = tokens.map(async (token, n) => {
  await Bun.sleep((n * 1_000) / perSecond);
  const openedAt = performance.now();
  const client = new SignalingClient({ url: server.url, token, onPush: () => void pushes++ });
  clients.push(client);
  const ack = await client.join();
  joinMs.push(performance.now() - openedAt);
  ackBytes.push(JSON.stringify(ack).length);
});
const failed = (await Promise.allSettled(joining)).filter(({ status }) => status === "rejected").length;
const seconds = (performance.now() - startedAt) / 1_000;
const cpuMs = (cpuNanos(server.pid) - cpuBefore) / 1e6;
const mainThreadMs = (mainThreadNanos(server.pid) - nanosBefore) / 1e6;
await untilIdle(server.pid);
const kilobytes = ((ownMegabytes(server.pid) - memoryBefore) * 1_024) / viewers;
for (const client of [host, ...clients]) client.close();
await server.close();

report(
  "roster",
  [
    { what: `joins that failed, of ${viewers}`, value: failed, unit: "", goal: { atMost: 0 } },
    { what: `join at ${perSecond} a second, p50`, value: median(joinMs), unit: "ms" },
    { what: "join, p99", value: percentile(joinMs, 0.99), unit: "ms", goal: { atMost: 1_000 } },
    { what: "largest answer", value: Math.max(...ackBytes), unit: "bytes", goal: { atMost: 4_096 } },
    { what: "pushes for each join", value: pushes / viewers, unit: "" },
    { what: "main thread", value: mainThreadMs / seconds / 10, unit: "% of a core", goal: { atMost: 50 } },
    // These two hold beside other programs too.
    { what: "main thread for each join", value: mainThreadMs / viewers, unit: "ms" },
    { what: "all threads for each join", value: cpuMs / viewers, unit: "ms" },
    { what: "memory of a viewer without media", value: kilobytes, unit: "KB" },
  ],
  { viewers, perSecond, seconds, load: loadavg() },
);
