/** verdicts: calls with real faults, and the cause that each of them comes back with. `bin/bench verdicts [--rounds 20] [--at-once 4] [CAUSE…]` */
import { parseArgs } from "node:util";
import type { VerdictCause } from "../../src/protocol/room-records.ts";
import { FAULTS } from "../verdicts/faults.ts";
import { isNamed, type Played, play } from "../verdicts/play.ts";
import { openVerdictStage } from "../verdicts/stage.ts";
import { type Measured, report } from "./harness/report.ts";

const { values, positionals } = parseArgs({
  options: { rounds: { type: "string", default: "20" }, "at-once": { type: "string", default: "4" } },
  allowPositionals: true,
});
const rounds = Number(values.rounds);
const atOnce = Number(values["at-once"]);
const wanted = FAULTS.filter(({ cause }) => positionals.length === 0 || positionals.includes(cause));

const outcomes: Record<string, Played[]> = {};
for (const fault of wanted) {
  const played: Played[] = [];
  // A camera that was pulled out stays out, and a busy server has a memory: each fault has machines of its own.
  while (played.length < rounds) {
    const stage = await openVerdictStage(1);
    try {
      const [place] = stage.places;
      if (!place) throw new Error("there is no place");
      do {
        const calls = Math.min(atOnce, rounds - played.length);
        const more = await play(stage, place, fault, { calls, patienceMs: 90_000, healthyMs: 40_000 });
        played.push(...more);
        for (const one of more) console.log(`${fault.cause}: ${JSON.stringify(one)}`);
      } while (played.length < rounds && fault.cause !== "device");
    } finally {
      await stage.close();
    }
  }
  outcomes[fault.cause] = played;
}

const figures: Measured[] = Object.entries(outcomes).flatMap(([cause, played]) => {
  const count = (what: string, is: (one: Played) => boolean, goal = true): Measured => ({
    what: `${cause}: ${what}`,
    value: played.filter(is).length,
    unit: `of ${played.length}`,
    ...(goal && { goal: { atLeast: played.length } }),
  });
  const rows = [
    count("in the record", ({ verdicts }) => isNamed(verdicts, cause as VerdictCause)),
    count("told meanwhile", ({ told }) =>
      cause === "none" ? told.length === 0 : told.includes(cause as VerdictCause),
    ),
  ];
  // Everybody's server is the same one.
  const isShared = cause === "server_overload";
  return [...rows, count("the other one: none", ({ other }) => isNamed(other, "none"), !isShared)];
});
report("verdicts", figures, { rounds, outcomes });
process.exit();
