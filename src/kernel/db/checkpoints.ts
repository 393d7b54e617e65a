import type { Database } from "bun:sqlite";
import type { Timers } from "../timers.ts";

/** With nobody at the door for so long, the thread is taken to be free. */
const QUIET_MS = 3;
/** Fewer are not worth the two fsyncs that it takes. */
const ENOUGH_COMMITS = 50;
const LOOK_EVERY_MS = 5_000;
/** Until the next look: whoever commits more often than ten times a second has use for what is kept. */
const CALM_COMMITS = 50;
/** After fewer there is little to give back. */
const STORM_COMMITS = 500;

/** What is put off until fewer commits come. */
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

/**
 * Gives back the pages that a storm of commits has left in SQLite's cache, once it is over. By itself SQLite keeps them for
 * as long as the connection is open, up to `cache_size` and what its allocator loses around it. Whoever reads later finds the
 * pages in the file, which is mapped; whoever writes fetches the few it needs.
 */
export function releaseCacheWhenCalm(
  release: () => void,
  timers: Timers,
  onError: (error: unknown) => void,
): Checkpoints {
  let commits = 0;
  let cancel: (() => void) | null = null;

  function waitForCalm(): void {
    const before = commits;
    cancel = timers.after(LOOK_EVERY_MS, () => {
      cancel = null;
      if (commits - before > CALM_COMMITS) return waitForCalm();
      commits = 0;
      try {
        release();
      } catch (error) {
        onError(error);
      }
    });
  }

  return {
    committed() {
      commits++;
      if (commits >= STORM_COMMITS && cancel === null) waitForCalm();
    },
    stop() {
      cancel?.();
      cancel = null;
    },
  };
}

export function together(...tasks: readonly Checkpoints[]): Checkpoints {
  return {
    committed() {
      for (const task of tasks) task.committed();
    },
    stop() {
      for (const task of tasks) task.stop();
    },
  };
}
