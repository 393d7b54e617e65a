import { afterAll, beforeAll } from "bun:test";
import type { VerdictCause } from "../../../src/protocol/room-records.ts";
import { FAULTS } from "./faults.ts";
import { play } from "./play.ts";
import { openVerdictStage, type VerdictStage } from "./stage.ts";

const PLACES = 4;
const TERMS = { calls: 1, patienceMs: 140_000, healthyMs: 0 };

/** For one test file: plays a call for each cause, all in parallel, and returns by cause those with a wrong verdict. */
export function verdictCalls(): (...causes: VerdictCause[]) => Promise<Record<string, unknown>> {
  let stage: VerdictStage;
  beforeAll(async () => {
    stage = await openVerdictStage(PLACES);
  }, 180_000);
  afterAll(() => stage?.close(), 60_000);

  return async (...causes) => {
    const all = await Promise.all(
      causes.map(async (cause, n) => {
        const [place, fault] = [stage.places[n], FAULTS.find((one) => one.cause === cause)];
        if (!place || !fault) throw new Error(`there is no place or fault for ${cause}`);
        const played = await play(stage, place, fault, TERMS);
        // Only a quiet machine can show that nothing else is reported: `bin/bench verdicts`.
        const isRight = played.every(({ told, verdicts }) => told.includes(cause) && verdicts.length > 0);
        return isRight ? [] : [[cause, played]];
      }),
    );
    return Object.fromEntries(all.flat());
  };
}
