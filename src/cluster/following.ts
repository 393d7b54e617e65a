import { ReplicaDiffers } from "../kernel/db/changesets.ts";
import { type CommitLog, Forgotten, type Leadership } from "../kernel/db/commit-log.ts";
import type { Log } from "../kernel/log.ts";
import type { Abstention } from "./abstention.ts";
import type { Replica } from "./replica.ts";

const BATCH = 500;
/** How often a standby tries whether the right to lead is free. */
const TRY_EVERY_MS = 250;

type FollowDeps = {
  log: CommitLog;
  replica: Replica;
  url: string;
  abstention: Abstention;
  logger: Log;
  signal: AbortSignal;
};

/** Applies what there is. */
async function catchUp(log: CommitLog, replica: Replica): Promise<void> {
  for (;;) {
    const entries = await log.read(replica.position, BATCH);
    if (entries.length === 0) return;
    replica.apply(entries);
  }
}

/**
 * Follows the log until this server may lead it, and has then read all of it; null when it is to stop. A log that does
 * not answer is asked again; a file that does not fit, or a log that has forgotten what comes next, is the caller's.
 */
export async function followUntilLeading({
  log,
  replica,
  url,
  abstention,
  logger,
  signal,
}: FollowDeps): Promise<Leadership | null> {
  let wake = () => {};
  const stopListening = log.onAppended(() => wake());
  const stop = () => wake();
  signal.addEventListener("abort", stop);
  let away = false;
  let triedAt = 0;
  try {
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      try {
        await catchUp(log, replica);
        if (performance.now() - triedAt >= TRY_EVERY_MS) {
          triedAt = performance.now();
          const leadership = await abstention.unlessPromised(() => log.lead(url));
          if (leadership !== null) {
            try {
              await catchUp(log, replica);
              return leadership;
            } catch (error) {
              await leadership.resign();
              throw error;
            }
          }
        }
        if (away) logger.info("the commit log answers again");
        away = abstention.logIsAway = false;
      } catch (error) {
        if (!isPassing(error)) throw error;
        if (!away) logger.warn({ err: error }, "the commit log does not answer; trying again");
        away = abstention.logIsAway = true;
      }
      // What is appended does not put off the next attempt: the last record of a leader is what it dies after.
      const untilNext = away ? TRY_EVERY_MS : Math.max(0, triedAt + TRY_EVERY_MS - performance.now());
      await Promise.race([woken, Bun.sleep(untilNext)]);
    }
    return null;
  } finally {
    stopListening();
    signal.removeEventListener("abort", stop);
  }
}

/** Connections break, databases restart and disks fill up: none of that is about what the local file holds. */
function isPassing(error: unknown): boolean {
  return !(error instanceof ReplicaDiffers || error instanceof Forgotten);
}
