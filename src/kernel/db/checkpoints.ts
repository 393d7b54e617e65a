import type { Database } from "bun:sqlite";
import type { Timers } from "../timers.ts";

/** With nobody at the door for so long, the thread is taken to be free. */
const QUIET_MS = 3;
/** Fewer are not worth the two fsyncs that it takes. */
const ENOUGH_COMMITS = 50;

export type Checkpoints = {
  /** To be told of each commit. */
  committed(): void;
  /** Before the database is closed. */
  stop(): void;
};

/**
 * Folds the write-ahead log into the database when nobody waits for a commit. Left to itself SQLite does so within the
 * commit that fills the log, and whoever that one belongs to waits several times as long as the others. It still does
 * when there is no quiet moment for too long (`wal_autocheckpoint`).
 */
export function checkpointWhenQuiet(client: Database, timers: Timers, onError: (error: unknown) => void): Checkpoints {
  const checkpoint = client.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  let commits = 0;
  let cancel: (() => void) | null = null;

  function waitForQuiet(): void {
    const before = commits;
    cancel = timers.after(QUIET_MS, () => {
      cancel = null;
      if (commits > before) return waitForQuiet();
      commits = 0;
      try {
        checkpoint.run();
      } catch (error) {
        // All of it stays in the log, and is tried again after the next commits.
        onError(error);
      }
    });
  }

  return {
    committed() {
      commits++;
      if (commits >= ENOUGH_COMMITS && cancel === null) waitForQuiet();
    },
    stop() {
      cancel?.();
      cancel = null;
    },
  };
}
