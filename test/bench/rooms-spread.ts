/** rooms-spread: one stream to many viewers, on one worker and spread over two: CPU in all and of the busiest thread, delay, and how many viewers workers with a limited share of a core carry; `bin/bench rooms-spread [viewers] [rounds] [percent]` */
import { loadavg } from "node:os";
import { limitThreads, workerThreads } from "../e2e/verdicts/quota.ts";
import { enterOwnNetwork } from "./harness/own-network.ts";
import { type Measured, median, report } from "./harness/report.ts";
import { Crowd, VIDEO } from "./sfu/crowd.ts";
import { manyViewers, measured, SEEN } from "./sfu/many-viewers.ts";
import { stoa } from "./sfu/stoa.ts";

/** The delay that no more than one packet in a hundred may exceed: two frames. */
const DELAY_MS = 67;
const STEPS = 40;
const FIRST_STEP = 12;
const ATTEMPTS = 3;

const [viewers = 400, rounds = 3, percent = 25] = process.argv.slice(2).map(Number);
await enterOwnNetwork();

/** Whether all of them get everything in time. Anything else that this machine does may spoil one attempt, but not each of them. */
async function carries(crowd: Crowd, count: number): Promise<boolean> {
  for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
    const limit = limitThreads(workerThreads(crowd.contestant.pid), percent);
    const { lossPercent, p99 } = await measured(crowd, count);
    limit.release();
    console.error(`1 → ${count}: ${lossPercent.toFixed(2)} % lost, p99 ${p99.toFixed(0)} ms`);
    if (lossPercent === 0 && p99 <= DELAY_MS) return true;
  }
  return false;
}

/**
 * How many viewers get everything in time when each worker may use this share of a core. With whole cores, the load and the workers
 * would compete for them on a small machine, and the result would be what is left for the workers.
 */
async function carried(spreads: boolean): Promise<number> {
  const [contestant] = await stoa({ workers: 2, spreads });
  const crowd = await Crowd.gather(contestant, "goog-remb", true, VIDEO);
  await crowd.grow(SEEN);
  let most = 0;
  const step = Math.round(viewers / STEPS) * (spreads ? 2 : 1);
  for (let count = step * FIRST_STEP; ; count += step) {
    await crowd.growUnseen(count - SEEN);
    if (!(await carries(crowd, count))) break;
    most = count;
  }
  await crowd.disperse();
  return most;
}

type Cost = { threadPercent: number; serverPercent: number; p99: number; lossPercent: number };
const costs: Record<"one" | "two", Cost[]> = { one: [], two: [] };
// In turns, so that a busy moment of the machine meets both.
for (let round = 0; round < rounds; round++)
  for (const [name, spreads] of [["one", false] as const, ["two", true] as const]) {
    const [contestant] = await stoa({ workers: 2, spreads });
    const { steps } = await manyViewers(contestant, [viewers], "goog-remb", VIDEO, `${name} of two workers`);
    costs[name].push(...steps);
  }
const most: Record<"one" | "two", number[]> = { one: [], two: [] };
for (let round = 0; round < rounds; round++) {
  most.one.push(await carried(false));
  most.two.push(await carried(true));
}

const middle = (name: "one" | "two", field: keyof Cost) => median(costs[name].map((cost) => cost[field]));
const figures: Measured[] = (["one", "two"] as const).flatMap((name) => {
  const what = `1 → ${viewers}, ${name === "one" ? "one worker" : "two workers"}`;
  return [
    { what: `${what}: loss`, value: middle(name, "lossPercent"), unit: "%" },
    { what: `${what}: delay p99`, value: middle(name, "p99"), unit: "ms" },
    { what: `${what}: processor time`, value: middle(name, "serverPercent"), unit: "% of a core" },
    { what: `${what}: its busiest thread`, value: middle(name, "threadPercent"), unit: "% of a core" },
  ];
});
const ratio = (field: keyof Cost) => middle("two", field) / middle("one", field);
figures.push(
  {
    what: "busiest thread, one worker against two",
    value: 1 / ratio("threadPercent"),
    unit: "×",
    goal: { atLeast: 1.8 },
  },
  { what: "processor time, two workers against one", value: ratio("serverPercent"), unit: "×", goal: { atMost: 1.1 } },
  { what: `viewers with ${percent} % of a core each, one worker`, value: median(most.one), unit: "" },
  { what: `viewers with ${percent} % of a core each, two workers`, value: median(most.two), unit: "" },
  {
    what: "viewers that two workers carry, against one",
    value: median(most.two) / median(most.one),
    unit: "×",
    goal: { atLeast: 1.8 },
  },
);
report("rooms-spread", figures, { viewers, rounds, percent, most, load: loadavg() });
