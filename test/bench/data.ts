/** data: a file of 50 MB beside sound on a network that loses packets, and requests answered per second, between two participants and a server in processes of their own. `bin/bench data [MB] [loss %] [seconds]` */
import { join as pathOf } from "node:path";
import { join, type StreamReader } from "../../src/rtc-client/participant/participant.ts";
import { Stoa } from "../../web/sdk/server.ts";
import { startServer } from "../e2e/sdk/server-process.ts";
import { cpuMicrosOfAll } from "./harness/processes.ts";
import { percentile, report } from "./harness/report.ts";

const [megabytes = 50, lossPercent = 5, seconds = 10] = process.argv.slice(2).map(Number);
/** The number of requests that a participant makes at the same time. */
const CONCURRENT = 50;
const WARM_UP_SECONDS = 3;
const SETTLE_MS = 2_000;
const QUIET_MS = 5_000;

/** Prints the longest interval of a timer of 20 ms: what this machine, and not the software, makes everyone wait. */
const TIMER = `
  let [last, longest] = [performance.now(), 0];
  setInterval(() => ([last, longest] = [performance.now(), Math.max(longest, performance.now() - last)]), 20);
  process.on("SIGTERM", () => (console.log(longest), process.exit()));
`;

await using started = new AsyncDisposableStack();
const server = await startServer();
started.defer(() => server.close());
const stoa = new Stoa(server);
const mint = async (user: string) => (await stoa.mintJoin({ room: "data", user })).rtc;
const { endpoint, token } = await mint("reader");
const reader = await join(endpoint, token);
started.defer(() => reader.close());
const gaps: number[] = [];
let lastAt = 0;
const heard = Promise.withResolvers<void>();
reader.on("audio", () => {
  const now = performance.now();
  if (lastAt > 0) gaps.push(now - lastAt);
  lastAt = now;
  if (gaps.length === 50) heard.resolve();
});
const seat = await mint("sender");
const loss = lossPercent / 100;
const sender = Bun.spawn(
  [process.execPath, pathOf(import.meta.dir, "data/sender.ts"), seat.endpoint, seat.token, String(loss)],
  { stdout: "inherit", stderr: "inherit" },
);
started.defer(() => sender.kill());
await heard.promise;

/** Makes requests for this many seconds, and returns how long each answer took. */
async function ask(forSeconds: number): Promise<number[]> {
  const tookMs: number[] = [];
  const endsAt = performance.now() + forSeconds * 1_000;
  const asks = Array.from({ length: CONCURRENT }, async () => {
    while (performance.now() < endsAt) {
      const askedAt = performance.now();
      if ((await reader.request("sender", "add", "41")) !== "42") throw new Error("a wrong answer");
      tookMs.push(performance.now() - askedAt);
    }
  });
  await Promise.all(asks);
  return tookMs;
}

await ask(WARM_UP_SECONDS);
const [startedAt, cpuBefore] = [performance.now(), cpuMicrosOfAll(process.pid)];
const tookMs = await ask(seconds);
const answered = tookMs.length / ((performance.now() - startedAt) / 1_000);
const cpuMs = (cpuMicrosOfAll(process.pid) - cpuBefore) / 1_000 / tookMs.length;

const wanted = await reader.request("sender", "prepare", String(megabytes * 1_000_000));
reader.network({ loss, seed: 12 });
await Bun.sleep(SETTLE_MS);
gaps.length = 0;
await Bun.sleep(QUIET_MS);
const longestAlone = Math.max(...gaps);
gaps.length = 0;
const arrives = new Promise<StreamReader>((resolve) => reader.onStream("file", resolve));
const timer = Bun.spawn([process.execPath, "-e", TIMER], { stdout: "pipe" });
started.defer(() => timer.kill());
const sentAt = performance.now();
await reader.request("sender", "send");
const hash = new Bun.CryptoHasher("sha256");
let bytes = 0;
for await (const piece of await arrives) {
  hash.update(piece);
  bytes += piece.length;
}
const fileSeconds = (performance.now() - sentAt) / 1_000;
const beside = [...gaps];
timer.kill();
const longestTimer = Number(await new Response(timer.stdout).text());

await started.disposeAsync();
report("data", [
  { what: "requests answered", value: answered, unit: "/s", goal: { atLeast: 1_000 } },
  { what: "processor time of each, of all three processes", value: cpuMs, unit: "ms" },
  { what: `answered within, of ${CONCURRENT} at a time, p99`, value: percentile(tookMs, 0.99), unit: "ms" },
  {
    what: `arrived of ${megabytes} MB at ${lossPercent} % loss`,
    value: bytes / 1e6,
    unit: "MB",
    goal: { atLeast: megabytes },
  },
  { what: "pieces that differ", value: hash.digest("hex") === wanted ? 0 : 1, unit: "", goal: { atMost: 0 } },
  { what: "which took", value: fileSeconds, unit: "s" },
  { what: "longest gap of the sound before the file", value: longestAlone, unit: "ms" },
  { what: "longest interval of a timer of 20 ms beside them", value: longestTimer, unit: "ms" },
  { what: "gaps above 200 ms", value: beside.filter((gap) => gap > 200).length, unit: "" },
  { what: "longest gap of the sound beside the file", value: Math.max(...beside), unit: "ms", goal: { atMost: 200 } },
  { what: "of the sound heard", value: (beside.length / (fileSeconds * 50)) * 100, unit: "%", goal: { atLeast: 95 } },
]);
process.exit();
