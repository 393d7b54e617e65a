import type { NetworkCall, Viewer } from "../../e2e/networks/call.ts";
import type { Condition } from "../../e2e/networks/link.ts";
import type { Seen } from "../../e2e/networks/page.ts";
import { percentile } from "../harness/report.ts";

export type Scenario = {
  name: string;
  down: Condition;
  up?: Condition;
  viewers?: number;
  /** The changes of the link while it is watched, each after a number of seconds. */
  changes?: { atSeconds: number; down?: Condition; up?: Condition; move?: true; trouble?: "begins" | "ends" }[];
  seconds: number;
  goals: { queue?: boolean; share?: boolean; freezes?: boolean; fairness?: boolean; backWithinMs?: number };
  /** Also measured with a server that ignores the bandwidth of the link. */
  isBeside?: boolean;
};

export type Outcome = {
  name: string;
  goals: Scenario["goals"];
  firstFrameMs: number | null;
  queueP95Ms: number;
  /** The same from ten seconds on. */
  settledQueueP95Ms: number;
  /** The share of the link's capacity that is used, from ten seconds on; null if its rate changes or is unlimited. */
  share: number | null;
  standstills: number;
  longestStandstillMs: number;
  fairness: number | null;
  /** From the end of the trouble to the next frame. */
  backMs: number | null;
  left: string[];
};

const WARM_UP_SECONDS = 10;
const ROOM_TO_BEGIN_MS = 5_000;
const UP: Condition = { delayMs: 20 };

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "300 kbit/s",
    down: { rateKbit: 300, bufferMs: 1_000, delayMs: 20 },
    seconds: 30,
    goals: { queue: true, share: true },
    isBeside: true,
  },
  {
    name: "1 Mbit/s, buffer of 200 ms",
    down: { rateKbit: 1_000, bufferMs: 200, delayMs: 20 },
    seconds: 30,
    goals: { queue: true, share: true, freezes: true },
    isBeside: true,
  },
  {
    name: "5 % loss",
    down: { loss: 0.05, delayMs: 20 },
    up: { loss: 0.05, delayMs: 20 },
    seconds: 25,
    goals: { queue: true, freezes: true },
  },
  { name: "100 ms of jitter", down: { jitterMs: 100, delayMs: 20 }, seconds: 25, goals: { freezes: true } },
  {
    name: "narrows and widens",
    down: { rateKbit: 1_500, bufferMs: 500, delayMs: 20 },
    changes: [
      { atSeconds: 12, down: { rateKbit: 400, bufferMs: 500, delayMs: 20 } },
      { atSeconds: 26, down: { rateKbit: 1_500, bufferMs: 500, delayMs: 20 } },
    ],
    seconds: 40,
    goals: {},
  },
  {
    name: "two viewers share 1 Mbit/s",
    down: { rateKbit: 1_000, bufferMs: 500, delayMs: 20 },
    viewers: 2,
    seconds: 35,
    goals: { queue: true, share: true, freezes: true, fairness: true },
    isBeside: true,
  },
  {
    name: "another address",
    down: { rateKbit: 2_000, bufferMs: 300, delayMs: 20 },
    changes: [{ atSeconds: 10, move: true, trouble: "ends" }],
    seconds: 30,
    goals: { backWithinMs: 4_000 },
  },
  {
    name: "25 s of silence",
    down: { rateKbit: 2_000, bufferMs: 300, delayMs: 20 },
    changes: [
      { atSeconds: 8, down: { silent: true }, up: { silent: true }, trouble: "begins" },
      { atSeconds: 33, down: { rateKbit: 2_000, bufferMs: 300, delayMs: 20 }, up: UP, trouble: "ends" },
    ],
    seconds: 55,
    goals: { backWithinMs: 15_000 },
  },
];

/** One scenario after another on the same call: all viewers are new. */
export async function runScenario({ link, watch }: NetworkCall, scenario: Scenario): Promise<Outcome> {
  const { down, up = UP, changes = [], seconds } = scenario;
  link.set({ down, up });
  await link.report();
  const viewers: Viewer[] = await Promise.all(Array.from({ length: scenario.viewers ?? 1 }, watch));
  const startedAt = Date.now();
  const until = (atSeconds: number) => Bun.sleep(Math.max(0, startedAt + atSeconds * 1_000 - Date.now()));
  const waitsMs: number[] = [];
  let troubleEndedMs: number | null = null;
  for (const change of [...changes, { atSeconds: WARM_UP_SECONDS, warm: true }].sort(
    (a, b) => a.atSeconds - b.atSeconds,
  )) {
    await until(change.atSeconds);
    if ("warm" in change) {
      waitsMs.push(...(await link.report()).down.waitsMs);
      continue;
    }
    if (change.trouble === "ends") troubleEndedMs = Date.now() - startedAt;
    if (change.move) await link.move();
    if (change.down || change.up) link.set({ down: change.down ?? down, up: change.up ?? up });
  }
  await until(seconds);
  const passed = (await link.report()).down;
  waitsMs.push(...passed.waitsMs);
  const seen = await Promise.all(viewers.map((viewer) => viewer.seen()));
  await Promise.all(viewers.map((viewer) => viewer.close()));
  const constant = changes.length === 0 && down.rateKbit !== undefined;
  const standstills = seen.flatMap((one) =>
    one.standstills.filter(({ atMs, ms }) => atMs > ROOM_TO_BEGIN_MS && ms > 300),
  );
  return {
    name: scenario.name,
    goals: scenario.goals,
    firstFrameMs: worst(seen.map(({ firstFrameMs }) => firstFrameMs)),
    queueP95Ms: percentile(waitsMs, 0.95),
    settledQueueP95Ms: percentile(passed.waitsMs, 0.95),
    share: constant ? (passed.bytes * 8) / passed.seconds / ((down.rateKbit ?? 0) * 1_000) : null,
    standstills: standstills.length,
    longestStandstillMs: Math.max(0, ...standstills.map(({ ms }) => ms)),
    fairness: seen.length > 1 ? unevenness(seen) : null,
    backMs: troubleEndedMs === null ? null : Math.max(...seen.map((one) => backAfter(one, troubleEndedMs))),
    left: seen.flatMap(({ left }) => left),
  };
}

/** How long a standstill that began during the fault lasted after the end of the fault; 0 if there was none. */
function backAfter({ standstills }: Seen, endedMs: number): number {
  const around = standstills.filter(({ atMs, ms }) => atMs + ms > endedMs && atMs <= endedMs + 2_000);
  return Math.max(0, ...around.map(({ atMs, ms }) => atMs + ms - endedMs));
}

function worst(values: (number | null)[]): number | null {
  return values.includes(null) ? null : Math.max(...values.map(Number));
}

function unevenness(seen: Seen[]): number {
  const bytes = seen.map(({ bytes }) => Math.max(1, bytes));
  return Math.max(...bytes) / Math.min(...bytes);
}
