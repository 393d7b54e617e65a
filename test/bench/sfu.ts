/** sfu: CPU time per forwarded packet beside Janus, werift and mediasoup (MEDIASOUP_DIR), small rooms and large, viewers a core carries; `bin/bench sfu [counts] [seconds] [rounds] [--matrix]` */

import { loadavg } from "node:os";
import { enterOwnNetwork } from "./harness/own-network.ts";
import { type Measured, median, report } from "./harness/report.ts";
import { coreCapacity, workerScaling } from "./sfu/capacity.ts";
import type { Contestant } from "./sfu/contestant.ts";
import { AUDIO, Crowd, type Feedback, type Figures, VIDEO, type VideoShape } from "./sfu/crowd.ts";
import { janus, unpackJanus } from "./sfu/janus.ts";
import { manyViewers } from "./sfu/many-viewers.ts";
import { mediasoup } from "./sfu/mediasoup.ts";
import { BEFORE, stoa, TYPESCRIPT } from "./sfu/stoa.ts";
import { werift } from "./sfu/werift.ts";
import { youngRoom } from "./sfu/young-room.ts";

const flag = (name: string) => process.argv.find((arg) => arg === `--${name}` || arg.startsWith(`--${name}=`));
/** `--matrix`: both kinds of feedback, packets in bursts and evenly, and one more count. */
const matrix = flag("matrix") !== undefined;
const [counts = matrix ? "2,5,10,50,100,200,500" : "2,5,10,50,100,200", seconds = "2.5", rounds = "3"] = process.argv
  .slice(2)
  .filter((arg) => !arg.startsWith("-"));
/**
 * `--only=stoa,janus`: some of the contestants, or `capacity`, `young` or `viewers` (`--viewers=500,1000,2000`, of a video of
 * `--kbits=600`, on `--server=mediasoup` instead of Stoa), and nothing else.
 */
const only = flag("only")?.split("=")[1]?.split(",");
const bunArgs = flag("profile") ? ["--cpu-prof", "--cpu-prof-dir=/tmp"] : [];
const WARM_UP_MS = 700;

/** The behaviour of browsers is the main figure: they negotiate transport-cc and send all packets of a frame at once. */
type Setup = { feedback: Feedback; bursts: boolean };
const HEADLINE: Setup = {
  feedback: flag("remb") ? "goog-remb" : "transport-cc",
  bursts: flag("even") === undefined,
};
const SETUPS: Setup[] = matrix
  ? (["transport-cc", "goog-remb"] as const).flatMap((feedback) =>
      [true, false].map((bursts) => ({ feedback, bursts })),
    )
  : [HEADLINE];

const contestants: Record<string, () => Promise<Contestant>> = {
  stoa: async () => (await stoa({ bunArgs }))[0],
  typescript: async () => (await stoa({ bunArgs, fanOut: "typescript" }))[0],
  ...(process.env.STOA_BEFORE_DIR && { before: async () => (await stoa({ root: process.env.STOA_BEFORE_DIR }))[0] }),
  janus: () => janus(0),
  "janus-loop": () => janus(1),
  werift,
  ...(process.env.MEDIASOUP_DIR && mediasoupIn(process.env.MEDIASOUP_DIR)),
};

/** Only when they are named. */
const ASKED_FOR = new Set(["mediasoup-uring"]);

if (!only || [...only, flag("server") ?? ""].some((name) => name.includes("janus"))) await unpackJanus();
await enterOwnNetwork();

type Row = Figures & { name: string; count: number; setup: string };
const rows: Row[] = [];
const startedAt = performance.now();
for (const setup of SETUPS) await measureAll(setup);

if (rows.length > 0)
  console.log(`${VIDEO.packetBytes}-byte video, ${VIDEO.perSecond} a second, and audio, ${AUDIO.perSecond} a second`);
const figures: Measured[] = [];
for (const setup of new Set(rows.map((row) => row.setup))) {
  const own = rows.filter((row) => row.setup === setup);
  printTable(setup, own);
  for (const { name, count, cpuMicros } of own)
    figures.push({ what: labelled(`${name}, 1 → ${count}`, setup), value: cpuMicros, unit: "CPU-µs per packet" });
  figures.push(
    ...against(own, "Stoa", "Janus", (count) => (count >= 50 ? 0.17 : count >= 10 ? 0.4 : count >= 5 ? 0.5 : 0.65)),
    ...against(own, "Stoa", "mediasoup", (count) => (count >= 50 ? 0.4 : 0.8)),
    ...against(own, "Stoa", "mediasoup (io_uring)"),
    ...against(own, "Stoa", BEFORE),
    ...against(own, TYPESCRIPT, "Janus", (count) => (count >= 100 ? 0.35 : undefined)),
    ...against(own, "Stoa", "Janus (1 event loop)"),
    ...against(own, TYPESCRIPT, "werift", (count) => (count >= 100 ? 0.25 : undefined)),
  );
}
if (!only || only.includes("young")) figures.push(...(await youngRoom()));
// Thousands of handshakes take their time: only when it is asked for.
let climb: object[] = [];
if (only?.includes("viewers")) {
  const steps = (flag("viewers")?.split("=")[1] ?? "250,500,1000,1500,2000").split(",").map(Number);
  const server = flag("server")?.split("=")[1] ?? "stoa";
  const start = contestants[server];
  if (!start) throw new Error(`there is no ${server} here`);
  const climbed = await manyViewers(await start(), steps, HEADLINE.feedback, shapeOf(flag("kbits")?.split("=")[1]));
  figures.push(...climbed.figures);
  climb = climbed.steps;
}
if (!only || only.includes("capacity")) figures.push(...(await coreCapacity()), ...(await workerScaling()));
// Losses and delays are only as good as the machine was idle.
report("sfu", figures, { rows, climb, loadAverage: loadavg() });
process.exit();

async function measureAll(setup: Setup): Promise<void> {
  const crowds: Crowd[] = [];
  for (const [name, start] of Object.entries(contestants))
    if (only?.includes(name) ?? !ASKED_FOR.has(name))
      crowds.push(await Crowd.gather(await start(), setup.feedback, setup.bursts));
  for (const count of crowds.length > 0 ? counts.split(",").map(Number) : []) {
    for (const crowd of crowds) await crowd.grow(count);
    const measured = new Map<Crowd, Figures[]>(crowds.map((crowd) => [crowd, []]));
    // In turns, so that a busy moment of the machine meets all of them, and each time another begins.
    for (let round = 0; round < Number(rounds); round++)
      for (let turn = 0; turn < crowds.length; turn++) {
        const crowd = crowds[(round + turn) % crowds.length] as Crowd;
        measured.get(crowd)?.push(await crowd.measure(WARM_UP_MS, Number(seconds) * 1_000));
      }
    for (const [crowd, each] of measured)
      rows.push({ name: crowd.contestant.name, count, setup: nameOf(setup), ...middle(each) });
    const elapsed = ((performance.now() - startedAt) / 1_000).toFixed(0);
    console.error(`${nameOf(setup)}, 1 → ${count} measured, ${elapsed} s`);
  }
  for (const crowd of crowds) await crowd.disperse();
}

/** In both of its ways to send: without io_uring it is the quicker one where it was measured. */
function mediasoupIn(folder: string): typeof contestants {
  return { mediasoup: () => mediasoup(folder, false), "mediasoup-uring": () => mediasoup(folder, true) };
}

/** The usual one, or as many packets as such a bit rate has, some 25 times a second. */
function shapeOf(kbits: string | undefined): VideoShape {
  if (kbits === undefined) return VIDEO;
  const perSecond = Math.max(1, Math.round((Number(kbits) * 1_000) / 8 / VIDEO.packetBytes));
  return { ...VIDEO, perSecond, perFrame: Math.max(1, Math.round(perSecond / 25)) };
}

function nameOf({ feedback, bursts }: Setup): string {
  return `${feedback === "goog-remb" ? "REMB" : feedback}, ${bursts ? "in bursts" : "evenly"}`;
}

/** The headline goes without saying. */
function labelled(what: string, setup: string): string {
  return setup === nameOf(HEADLINE) ? what : `${what} (${setup})`;
}

/** Ratios of our figure to another's, at every count. */
function against(own: Row[], ours: string, name: string, atMost?: (count: number) => number | undefined): Measured[] {
  return own
    .filter((row) => row.name === name)
    .flatMap((other) => {
      const mine = own.find((row) => row.name === ours && row.count === other.count);
      if (!mine) return [];
      const what = labelled(`${ours} against ${name}, 1 → ${other.count}`, other.setup);
      const limit = atMost?.(other.count);
      const goal = limit === undefined || other.setup !== nameOf(HEADLINE) ? {} : { goal: { atMost: limit } };
      return [{ what, value: mine.cpuMicros / other.cpuMicros, unit: "×", ...goal }];
    });
}

function middle(each: Figures[]): Figures {
  const of = (name: keyof Figures) => median(each.map((figure) => figure[name]));
  const shares = { lossPercent: of("lossPercent"), besidesPercent: of("besidesPercent") };
  return { cpuMicros: of("cpuMicros"), ...shares, p50: of("p50"), p99: of("p99") };
}

function printTable(setup: string, table: Row[]): void {
  const widths = [20, 12, 14, 8, 10, 9, 9];
  const line = (cells: string[]) =>
    console.log(cells.map((cell, i) => (i === 0 ? cell.padEnd(20) : cell.padStart(widths[i] ?? 8))).join(" "));
  console.log(`\n${setup}`);
  line(["", "subscribers", "CPU-µs/packet", "loss %", "besides %", "p50 ms", "p99 ms"]);
  for (const { name, count, cpuMicros, lossPercent, besidesPercent, p50, p99 } of table)
    line([name, String(count), ...[cpuMicros, lossPercent, besidesPercent, p50, p99].map((value) => value.toFixed(2))]);
}
