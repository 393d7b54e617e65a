/** rooms-spread: one stream to many viewers, on one worker and spread over two: CPU in all and of the busiest thread, delay; `bin/bench rooms-spread [viewers] [rounds]` */
import { loadavg } from "node:os";
import { enterOwnNetwork } from "./harness/own-network.ts";
import { type Measured, median, report } from "./harness/report.ts";
import { VIDEO } from "./sfu/crowd.ts";
import { manyViewers } from "./sfu/many-viewers.ts";
import { stoa } from "./sfu/stoa.ts";

const [viewers = 400, rounds = 3] = process.argv.slice(2).map(Number);
await enterOwnNetwork();

type Cost = { threadPercent: number; serverPercent: number; p99: number; lossPercent: number };
const costs: Record<"one" | "two", Cost[]> = { one: [], two: [] };
// In turns, so that a busy moment of the machine meets both.
for (let round = 0; round < rounds; round++)
  for (const [name, spreads] of [["one", false] as const, ["two", true] as const]) {
    const [contestant] = await stoa({ workers: 2, spreads });
    const { steps } = await manyViewers(contestant, [viewers], "goog-remb", VIDEO, `${name} of two workers`);
    costs[name].push(...steps);
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
);
report("rooms-spread", figures, { viewers, rounds, load: loadavg() });
