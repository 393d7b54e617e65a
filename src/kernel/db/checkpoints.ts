import type { Database } from "bun:sqlite";
import type { Timers } from "../timers.ts";

/** With nobody at the door for so long, the thread is taken to be free. */
const QUIET_MS = 3;
/** Fewer are not worth the two fsyncs that it takes. */
const ENOUGH_COMMITS = 50;

/**
 * Folds the write-ahead log into the database when nobody waits for a commit; to be told of each one. Left to itself
 * SQLite does so within the commit that fills the log, and whoever that one belongs to waits several times as long as
 * the others. It still does when there is no quiet moment for too long (`wal_autocheckpoint`).
 */
export function checkpointWhenQuiet(client: Database, timers: Timers): () => void {
  const checkpoint = client.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  let commits = 0;
  let waiting = false;

  function waitForQuiet(): void {
    const before = commits;
    waiting = true;
    timers.after(QUIET_MS, () => {
      waiting = false;
      if (commits > before) return waitForQuiet();
      commits = 0;
      try {
        checkpoint.run();
      } catch {
        // A full disk, or the database is closed: all of it stays in the log, from where SQLite tries again itself.
      }
    });
  }

  return () => {
    commits++;
    if (commits >= ENOUGH_COMMITS && !waiting) waitForQuiet();
  };
}
