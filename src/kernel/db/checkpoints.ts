import type { Database } from "bun:sqlite";
import type { Timers } from "../timers.ts";

/** With nobody at the door for so long the thread is taken to be free; fewer are not worth the two fsyncs that it takes. */
const QUIET: Calm = { enough: 50, lookEveryMs: 3, atMost: 0 };
/** Whoever commits more often than ten times a second has use for what is kept. */
const AFTER_A_STORM: Calm = { enough: 500, lookEveryMs: 5_000, atMost: 50 };

/** What is put off until fewer commits come. */
export type Checkpoints = {
  /** To be told of each commit. */
  committed(): void;
  /** Before the database is closed. */
  stop(): void;
};

type Calm = {
  /** After fewer the task is not worth its while. */
  enough: number;
  lookEveryMs: number;
  /** As many between two looks are none too many. */
  atMost: number;
};

/** Does the task once enough commits have come, and few come any more. What it throws is told, and it is tried again later. */
function whenCalm(calm: Calm, timers: Timers, task: () => void, onError: (error: unknown) => void): Checkpoints {
  let commits = 0;
  let cancel: (() => void) | null = null;

  function wait(): void {
    const before = commits;
    cancel = timers.after(calm.lookEveryMs, () => {
      cancel = null;
      if (commits - before > calm.atMost) return wait();
      commits = 0;
      try {
        task();
      } catch (error) {
        onError(error);
      }
    });
  }

  return {
    committed() {
      commits++;
      if (commits >= calm.enough && cancel === null) wait();
    },
    stop() {
      cancel?.();
      cancel = null;
    },
  };
}

/**
 * Folds the write-ahead log into the database when nobody waits for a commit. Left to itself SQLite does so within the
 * commit that fills the log, and whoever that one belongs to waits several times as long as the others. It still does
 * when there is no quiet moment for too long (`wal_autocheckpoint`).
 */
export function checkpointWhenQuiet(client: Database, timers: Timers, onError: (error: unknown) => void): Checkpoints {
  const checkpoint = client.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  return whenCalm(QUIET, timers, () => checkpoint.run(), onError);
}

/** Tells once a storm of commits is over: who keeps something of it gives it back then. */
export function whenCalmAgain(tell: () => void, timers: Timers, onError: (error: unknown) => void): Checkpoints {
  return whenCalm(AFTER_A_STORM, timers, tell, onError);
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
