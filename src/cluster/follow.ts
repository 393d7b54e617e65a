import { ReplicaDiverged } from "../kernel/db/changesets.ts";
import { type CommitLog, type Leadership, LogRolledBack, LogTruncated } from "../kernel/db/commit-log.ts";
import { isDamage } from "../kernel/db/health.ts";
import { LogForged } from "../kernel/db/log-seal.ts";
import { MigrationRefused } from "../kernel/db/migrate.ts";
import type { Log } from "../kernel/log.ts";
import type { Abstention } from "./abstention.ts";
import type { Replica } from "./replica.ts";

const BATCH_RECORDS = 500;
const ATTEMPT_EVERY_MS = 250;

type FollowDeps = {
  log: CommitLog;
  replica: Replica;
  url: string;
  abstention: Abstention;
  logger: Log;
  signal: AbortSignal;
};

async function catchUp(log: CommitLog, replica: Replica): Promise<void> {
  for (;;) {
    const entries = await log.read(replica.position, BATCH_RECORDS);
    if (entries.length === 0) return;
    replica.apply(entries);
  }
}

/**
 * Follows the log until this server may lead and has applied all records; null when the signal aborts. An unreachable log
 * is retried. The caller handles a database that does not fit the log, and a log that no longer has the next record.
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
  let isUnreachable = false;
  let attemptedAt = 0;
  try {
    while (!signal.aborted) {
      const woken = new Promise<void>((resolve) => {
        wake = resolve;
      });
      try {
        await catchUp(log, replica);
        if (performance.now() - attemptedAt >= ATTEMPT_EVERY_MS) {
          attemptedAt = performance.now();
          const leadership = await abstention.attemptToLead(() => log.lead(url));
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
        if (isUnreachable) logger.info("cluster: commit log reachable again");
        isUnreachable = abstention.logIsUnreachable = false;
      } catch (error) {
        if (!isTransient(error)) throw error;
        if (!isUnreachable) logger.warn({ err: error }, "cluster: commit log unreachable, retrying");
        isUnreachable = abstention.logIsUnreachable = true;
      }
      // A record does not delay the next attempt to lead: a leader may fail right after writing it.
      const waitMs = isUnreachable ? ATTEMPT_EVERY_MS : Math.max(0, attemptedAt + ATTEMPT_EVERY_MS - performance.now());
      await Promise.race([woken, Bun.sleep(waitMs)]);
    }
    return null;
  } finally {
    stopListening();
    signal.removeEventListener("abort", stop);
  }
}

/** A broken connection, a restarting Postgres or a full disk does not affect the local database. */
function isTransient(error: unknown): boolean {
  if (isDamage(error)) return false;
  return ![ReplicaDiverged, LogTruncated, LogRolledBack, LogForged, MigrationRefused].some(
    (kind) => error instanceof kind,
  );
}
