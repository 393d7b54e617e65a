/** verdicts: calls with real faults, and the cause that each of them comes back with. `bin/bench verdicts [--rounds 20] [--at-once 3] [--lanes 1] [CAUSE…]` */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { VerdictCause } from "../../src/protocol/room-records.ts";
import { clear, FAULTS, type Fault } from "../e2e/verdicts/faults.ts";
import { isNamed, type Played, play } from "../e2e/verdicts/play.ts";
import { openVerdictStage, type Place } from "../e2e/verdicts/stage.ts";
import { type Measured, report } from "./harness/report.ts";

const { values, positionals } = parseArgs({
  options: {
    rounds: { type: "string", default: "20" },
    "at-once": { type: "string", default: "3" },
    lanes: { type: "string", default: "1" },
  },
  allowPositionals: true,
});
const rounds = Number(values.rounds);
const atOnce = Number(values["at-once"]);
const TERMS = { patienceMs: 90_000, healthyMs: 40_000 };
/** Calls that could not be made at all say nothing of their verdict: once more, and no more than once. */
const TRIES = 2;
/** A user who interrupts it waits for its servers and networks to go, which takes a busy machine a while, and not for ever. */
const CLOSING_MS = 30_000;
const FOLDER = join(import.meta.dir, "../../dist/bench");

type Round = Played | { error: string };
type Batch = { fault: Fault; calls: number };

const wanted = FAULTS.filter(({ cause }) => positionals.length === 0 || positionals.includes(cause));
const outcomes = new Map(wanted.map(({ cause }) => [cause, [] as Round[]]));
const startedAt = performance.now();
let interrupted = false;
let ending: Promise<void> | null = null;

const stage = await openVerdictStage(Number(values.lanes));
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, async () => {
    interrupted = true;
    const missing = wanted.filter(({ cause }) => (outcomes.get(cause)?.length ?? 0) < rounds);
    console.log(`interrupted; not played, or not as often: ${missing.map(({ cause }) => cause).join(" ")}`);
    await end();
    process.exit(130);
  });
}
try {
  const beside = batchesOf(wanted.filter(({ alone }) => !alone));
  await Promise.all(stage.places.map((place) => inTurn(place, beside)));
  const [place] = stage.places;
  if (place) await inTurn(place, batchesOf(wanted.filter(({ alone }) => alone)));
} finally {
  await end();
}
process.exit();

function batchesOf(faults: readonly Fault[]): Batch[] {
  return faults.flatMap((fault) => {
    const most = Math.min(atOnce, fault.most ?? atOnce);
    return Array.from({ length: Math.ceil(rounds / most) }, (_, n) => ({
      fault,
      calls: Math.min(most, rounds - n * most),
    }));
  });
}

/** Takes batches off the list until it is empty: each lane has a place of its own, and all share the list. */
async function inTurn(place: Place, batches: Batch[]): Promise<void> {
  for (let next = batches.shift(); next && !interrupted; next = batches.shift()) {
    const { fault, calls } = next;
    const played = outcomes.get(fault.cause) ?? [];
    played.push(...(await tried(place, fault, calls)));
    if (fault.spoils) await place.renew();
    if (played.length < rounds) continue;
    const [inRecord, meanwhile] = [played.filter(isRight(fault.cause)), played.filter(isTold(fault.cause))];
    console.log(
      `${fault.cause.padEnd(16)} ${inRecord.length} of ${rounds} in the record, ${meanwhile.length} told, ${minutes()}`,
    );
    save();
  }
}

async function tried(place: Place, fault: Fault, calls: number): Promise<Round[]> {
  let error = "";
  for (let attempt = 1; attempt <= TRIES; attempt++) {
    try {
      const played = await play(stage, place, fault, { calls, ...TERMS });
      for (const one of played)
        if (!isRight(fault.cause)(one) || !isTold(fault.cause)(one) || !isOtherWell(fault.cause)(one))
          console.log(`${fault.cause}: not as it should be: ${JSON.stringify(one)}`);
      return played;
    } catch (thrown) {
      [error = ""] = String(thrown).split("\n");
      if (interrupted) break;
      console.log(`${fault.cause}: ${calls} calls could not be played: ${error}`);
      await clear(place);
      await place.renew();
    }
  }
  return Array.from({ length: calls }, () => ({ error }));
}

function isRight(cause: VerdictCause): (round: Round) => boolean {
  return (round) => "verdicts" in round && isNamed(round.verdicts, cause);
}

function isTold(cause: VerdictCause): (round: Round) => boolean {
  return (round) => "told" in round && (cause === "none" ? round.told.length === 0 : round.told.includes(cause));
}

/** All calls share one server: with an overloaded one no call is healthy. */
function isOtherWell(cause: VerdictCause): (round: Round) => boolean {
  return (round) => cause === "server_overload" || ("other" in round && isNamed(round.other, "none"));
}

function figures(): Measured[] {
  const begun = [...outcomes].filter(([, played]) => played.length > 0);
  return begun.flatMap(([cause, played]) => {
    const count = (what: string, is: (round: Round) => boolean): Measured => ({
      what: `${cause}: ${what}`,
      value: played.filter(is).length,
      unit: `of ${played.length}`,
      goal: { atLeast: rounds },
    });
    const rows = [count("in the record", isRight(cause)), count("told meanwhile", isTold(cause))];
    return cause === "server_overload" ? rows : [...rows, count("the other one: none", isOtherWell(cause))];
  });
}

/** Once, for the first that asks. */
function end(): Promise<void> {
  ending ??= (async () => {
    save();
    report("verdicts", figures(), { rounds, minutes: minutes() });
    await Promise.race([stage.close(), Bun.sleep(CLOSING_MS)]);
  })();
  return ending;
}

/** Saved after every cause, so that no result is lost if a later one fails. */
function save(): void {
  mkdirSync(FOLDER, { recursive: true });
  const seen = { rounds, minutes: minutes(), figures: figures(), outcomes: Object.fromEntries(outcomes) };
  writeFileSync(join(FOLDER, "verdicts.json"), `${JSON.stringify(seen, null, 2)}\n`);
}

function minutes(): string {
  return `after ${((performance.now() - startedAt) / 60_000).toFixed(1)} min`;
}
