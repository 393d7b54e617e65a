import type { CallVerdict, VerdictCause } from "../../src/protocol/room-records.ts";
import { type Fault, lineOf } from "./faults.ts";
import type { Place, VerdictStage } from "./stage.ts";

/**
 * One call with a fault: what its victim was told, what the record says of it, and of the other one, who had no trouble. A
 * victim whose client comes back as a new session is judged each time.
 */
export type Played = { told: VerdictCause[]; verdicts: CallVerdict[]; other: CallVerdict[]; seconds: number };

/** The record has this cause and no other. */
export function isNamed(verdicts: readonly CallVerdict[], cause: VerdictCause): boolean {
  const causes = verdicts.map((verdict) => verdict.cause);
  return causes.includes(cause) && causes.every((one) => one === cause || one === "none");
}

type Terms = {
  /** How many at once. */
  calls: number;
  /** How long to wait to be told. */
  patienceMs: number;
  /** How long a call without a fault lasts. */
  healthyMs: number;
};

/** Provokes a fault and waits until everybody has been told of it. */
export async function play(stage: VerdictStage, place: Place, fault: Fault, terms: Terms): Promise<Played[]> {
  place.link.set(lineOf(fault, terms.calls));
  const startedAt = Date.now();
  const calls = await Promise.all(Array.from({ length: terms.calls }, () => stage.call(place, fault.wishes)));
  const relieve = await fault.strike?.(stage, place, calls);
  const patienceMs = fault.cause === "none" ? terms.healthyMs : terms.patienceMs;
  const told = await Promise.all(
    calls.map(async (call) => {
      const end = Date.now() + patienceMs;
      for (;;) {
        const causes = (await call.told()).map(({ cause }) => cause);
        if ((fault.cause !== "none" && causes.includes(fault.cause)) || Date.now() > end) return causes;
        await Bun.sleep(250);
      }
    }),
  );
  const seconds = Math.round((Date.now() - startedAt) / 1_000);
  await relieve?.();
  const ends = await Promise.all(calls.map((call) => call.end()));
  place.link.set(lineOf({ cause: "none" }, 1));
  return ends.map(({ far, near }, n) => ({ told: told[n] ?? [], verdicts: far, other: near, seconds }));
}
