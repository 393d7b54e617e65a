import type { CallVerdict, VerdictCause } from "../../../src/protocol/room-records.ts";
import { clear, type Fault, lineOf } from "./faults.ts";
import type { Place, TroubledCall, VerdictStage } from "./stage.ts";

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
  /** The number of simultaneous calls. */
  calls: number;
  /** How long to wait for the verdict. */
  patienceMs: number;
  /** How long a call without a fault lasts. */
  healthyMs: number;
};

const SETTLED_FRAMES = 50;

/** Provokes a fault and waits until all participants have been told of it. */
export async function play(stage: VerdictStage, place: Place, fault: Fault, terms: Terms): Promise<Played[]> {
  if (!fault.lineWorsens) place.link.set(lineOf(fault));
  const startedAt = Date.now();
  const begun = await Promise.allSettled(Array.from({ length: terms.calls }, () => stage.call(place, fault.wishes)));
  const calls = begun.flatMap((one) => (one.status === "fulfilled" ? [one.value] : []));
  let relieve: (() => unknown) | undefined;
  try {
    for (const one of begun) if (one.status === "rejected") throw one.reason;
    // Waits until the round trip was measured without the fault, which takes some seconds of video.
    if (fault.lineWorsens) await Promise.all(calls.map(({ far }) => far.waitForFunction(hasShown, SETTLED_FRAMES)));
    place.link.set(lineOf(fault));
    relieve = await fault.strike?.(stage, place, calls);
    const patienceMs = fault.cause === "none" ? terms.healthyMs : terms.patienceMs;
    const told = await Promise.all(calls.map((call) => hear(call, fault.cause, Date.now() + patienceMs)));
    const seconds = Math.round((Date.now() - startedAt) / 1_000);
    await relieve?.();
    relieve = undefined;
    const ends = await Promise.all(calls.map((call) => call.end()));
    return ends.map(({ far, near }, n) => ({ told: told[n] ?? [], verdicts: far, other: near, seconds }));
  } finally {
    await relieve?.();
    await Promise.all(calls.map((call) => call.abandon()));
    await clear(place);
  }
}

/** Collects the verdicts that a participant gets, until one has the cause or the time is over. */
async function hear(call: TroubledCall, cause: VerdictCause, until: number): Promise<VerdictCause[]> {
  for (;;) {
    const causes = (await call.told()).map((verdict) => verdict.cause);
    if ((cause !== "none" && causes.includes(cause)) || Date.now() > until) return causes;
    await Bun.sleep(250);
  }
}

/** Runs in the page. */
function hasShown(frames: number): boolean {
  return window.call.frames() >= frames;
}
