import type { Database } from "bun:sqlite";
import { type Calm, type CalmWatch, createLeftoversAndCode, whenCalm } from "../calm.ts";
import type { Timers } from "../timers.ts";

/** With nobody at the door for so long the thread is taken to be free; fewer are not worth the two fsyncs that it takes. */
const QUIET: Calm = { enough: 50, lookEveryMs: 3, atMost: 0 };
/** Whoever commits more often has use for what is kept. Fifty calls, which nobody joins or leaves, do so ten times a second. */
const AFTER_A_STORM: Calm = { enough: 500, lookEveryMs: 5_000, atMost: 85, share: 1 / 10 };
const LONG_AFTER: Calm = { enough: 500, lookEveryMs: 15_000, atMost: 250, share: 1 / 10 };
/** Between two of its looks: from here on it was more than a busy minute. */
const STORM = 2 * LONG_AFTER.atMost;

/**
 * Folds the write-ahead log into the database when nobody waits for a commit. Left to itself SQLite does so within the
 * commit that fills the log, and whoever that one belongs to waits several times as long as the others. It still does
 * when there is no quiet moment for too long (`wal_autocheckpoint`).
 */
export function checkpointWhenQuiet(client: Database, timers: Timers, onError: (error: unknown) => void): CalmWatch {
  const checkpoint = client.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  return whenCalm(QUIET, timers, () => checkpoint.run(), onError);
}

/** Tells once a storm of commits is over: who keeps something of it gives it back then. */
export function whenCalmAgain(tell: () => void, timers: Timers, onError: (error: unknown) => void): CalmWatch {
  return whenCalm(AFTER_A_STORM, timers, tell, onError);
}

/** Collects what the storm left behind in the heap of this thread, once those who were told have let go of theirs. */
export function collectWhenCalm(timers: Timers, now: () => number, onError: (error: unknown) => void): CalmWatch {
  return whenCalm(LONG_AFTER, timers, createLeftoversAndCode(STORM, now), onError);
}
