/** sfu: CPU time per forwarded packet beside Janus and werift, viewers a core carries, two workers against one; `bin/bench sfu [counts] [seconds] [rounds]` */

import { loadavg } from "node:os";
import { enterOwnNetwork } from "./harness/own-network.ts";
import { type Measured, median, report } from "./harness/report.ts";
import { coreCapacity, workerScaling } from "./sfu/capacity.ts";
import type { Contestant } from "./sfu/contestant.ts";
import { AUDIO, Crowd, type Feedback, type Figures, VIDEO } from "./sfu/crowd.ts";
import { janus, unpackJanus } from "./sfu/janus.ts";
import { stoa, TYPESCRIPT } from "./sfu/stoa.ts";
import { werift } from "./sfu/werift.ts";

const [counts = "10,50,100,200", seconds = "2.5", rounds = "3"] = process.argv
  .slice(2)
  .filter((arg) => !arg.startsWith("-"));
const flag = (name: string) => process.argv.find((arg) => arg === `--${name}` || arg.startsWith(`--${name}=`));
/** `--only=stoa,janus`: some of the contestants, or `capacity`, and nothing else. */
const only = flag("only")?.split("=")[1]?.split(",");
const feedback: Feedback = flag("twcc") ? "transport-cc" : "goog-remb";
/** `--bursts`: all packets of a frame at once, as Chromium sends them, instead of evenly. */
const bursts = flag("bursts") !== undefined;
const bunArgs = flag("profile") ? ["--cpu-prof", "--cpu-prof-dir=/tmp"] : [];
const WARM_UP_MS = 700;

const contestants: Record<string, () => Promise<Contestant>> = {
  stoa: async () => (await stoa({ bunArgs }))[0],
  typescript: async () => (await stoa({ bunArgs, fanOut: "typescript" }))[0],
  janus: () => janus(0),
  "janus-loop": () => janus(1),
  werift,
};

if (!only || only.some((name) => name.startsWith("janus"))) await unpackJanus();
await enterOwnNetwork();

const crowds: Crowd[] = [];
for (const [name, start] of Object.entries(contestants))
  if (!only || only.includes(name)) crowds.push(await Crowd.gather(await start(), feedback, bursts));

type Row = Figures & { name: string; count: number };
const rows: Row[] = [];
const startedAt = performance.now();
for (const count of counts.split(",").map(Number)) {
  for (const crowd of crowds) await crowd.grow(count);
  const taken = new Map<Crowd, Figures[]>(crowds.map((crowd) => [crowd, []]));
  // In turns, so that a busy moment of the machine meets all of them.
  for (let round = 0; round < Number(rounds); round++)
    for (const [crowd, figures] of taken) figures.push(await crowd.measure(WARM_UP_MS, Number(seconds) * 1_000));
  for (const [crowd, figures] of taken) rows.push({ name: crowd.contestant.name, count, ...middle(figures) });
  console.error(`1 → ${count} measured, ${((performance.now() - startedAt) / 1_000).toFixed(0)} s`);
}
for (const crowd of crowds) await crowd.disperse();

console.log(`${VIDEO.packetBytes}-byte video, ${VIDEO.perSecond} a second, and audio, ${AUDIO.perSecond} a second`);
printTable(rows);
const figures: Measured[] = rows.map(({ name, count, cpuMicros }) => ({
  what: `${name}, 1 → ${count}`,
  value: cpuMicros,
  unit: "CPU-µs per packet",
}));
figures.push(
  ...against("Stoa", "Janus", 0.18),
  ...against(TYPESCRIPT, "Janus", 0.35),
  ...against("Stoa", "Janus (1 event loop)"),
  ...against(TYPESCRIPT, "werift", 0.25),
);
if (!only || only.includes("capacity")) figures.push(...(await coreCapacity()), ...(await workerScaling()));
// Losses and delays are only as good as the machine was idle.
report("sfu", figures, { rows, loadAverage: loadavg() });
process.exit();

/** Ratios of our figure to another's, where fan-out is what costs. */
function against(ours: string, name: string, atMost?: number): Measured[] {
  return rows
    .filter((row) => row.name === name && row.count >= 100)
    .flatMap((other) => {
      const own = rows.find((row) => row.name === ours && row.count === other.count);
      if (!own) return [];
      const what = `${ours} against ${name}, 1 → ${other.count}`;
      return [{ what, value: own.cpuMicros / other.cpuMicros, unit: "×", ...(atMost ? { goal: { atMost } } : {}) }];
    });
}

function middle(figures: Figures[]): Figures {
  const of = (name: keyof Figures) => median(figures.map((figure) => figure[name]));
  return { cpuMicros: of("cpuMicros"), lossPercent: of("lossPercent"), p50: of("p50"), p99: of("p99") };
}

function printTable(table: Row[]): void {
  const widths = [20, 12, 14, 8, 9, 9];
  const line = (cells: string[]) =>
    console.log(cells.map((cell, i) => (i === 0 ? cell.padEnd(20) : cell.padStart(widths[i] ?? 8))).join(" "));
  line(["", "subscribers", "CPU-µs/packet", "loss %", "p50 ms", "p99 ms"]);
  for (const { name, count, cpuMicros, lossPercent, p50, p99 } of table)
    line([name, String(count), ...[cpuMicros, lossPercent, p50, p99].map((value) => value.toFixed(2))]);
}
