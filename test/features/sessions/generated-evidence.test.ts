import { expect, test } from "bun:test";
import { verdictOf } from "../../../src/features/sessions/calls/verdict.ts";
import { VERDICT_CAUSES } from "../../../src/protocol/enums.ts";
import { DOSED, dosedEvidence } from "./generated-evidence.ts";

const ROUNDS = 20;
/** Each dose in calls of different lengths and noise. */
const SEEDS = 5;

test("[17] the generated evidence covers every cause", () => {
  expect(DOSED.toSorted()).toEqual([...VERDICT_CAUSES].sort());
});

test.each(DOSED)(`[17] the cause is found in ${ROUNDS} of ${ROUNDS} rounds: %s`, (cause) => {
  const wrong: unknown[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    for (let seed = 1; seed <= SEEDS; seed++) {
      const evidence = dosedEvidence(cause, round / (ROUNDS - 1), round * SEEDS + seed);
      const verdict = verdictOf(evidence);
      if (verdict.cause !== cause) wrong.push({ round, seed, verdict, evidence });
    }
  }
  expect(wrong).toEqual([]);
});
