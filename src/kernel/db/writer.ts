import { type Database, SQLiteError } from "bun:sqlite";
import type { LoggedCommits } from "./logged-commits.ts";

/**
 * Group commit. Every change runs in a synchronous unit of work. All units that are submitted while one commit runs share the next
 * one, so that one fsync serves many callers. Units of work run in the order of submission, and an error in one unit of `write`
 * rolls back only that unit.
 */
export type Writer = {
  /** Runs `work` in the next shared transaction; resolves once it is on disk. */
  write<T>(work: (unit: Unit) => NotPromise<T>): Promise<T>;
  /**
   * Like `write`, for work that makes all of its checks before its first change: it runs without a savepoint, which
   * costs a tenth of a chat message. If it nevertheless fails after a change, all units of work in that commit fail
   * with it.
   */
  checkThenWrite<T>(work: (unit: Unit) => NotPromise<T>): Promise<T>;
  drain(): Promise<void>;
};

// An async callback would leave the transaction at its first await.
type NotPromise<T> = T extends PromiseLike<unknown> ? never : T;

/**
 * One unit of work. Only the writer creates it, and every function that changes rows takes it as its first parameter,
 * so that a change outside of a transaction does not compile. The unit of work throws when it is used after its work
 * has returned.
 */
class Unit {
  #running = false;
  #hasChanged = false;
  #outcome: { ok: true; value: unknown } | { ok: false; error: unknown } | null = null;
  readonly #callbacks: (() => void)[] = [];

  constructor(
    private readonly work: (unit: Unit) => unknown,
    readonly checksFirst: boolean,
    private readonly resolve: (value: never) => void,
    private readonly reject: (error: unknown) => void,
  ) {}

  /** Runs once the work is on disk, before its caller continues. Never runs when the work fails. */
  afterCommit(callback: () => void): void {
    this.requireRunning();
    this.#callbacks.push(callback);
  }

  requireRunning(): void {
    if (!this.#running) throw new Error("this unit of work is over");
  }

  /** Called after each change; a failed statement has changed nothing. */
  changed(): void {
    this.#hasChanged = true;
  }

  get hasChanged(): boolean {
    return this.#hasChanged;
  }

  run(): void {
    this.#running = true;
    try {
      const value = this.work(this);
      if (value instanceof Promise) throw new TypeError("a unit of work must be synchronous");
      this.#outcome = { ok: true, value };
    } catch (error) {
      this.#outcome = { ok: false, error };
      throw error;
    } finally {
      this.#running = false;
    }
  }

  /** The shared transaction failed; a unit of work that had already failed keeps its own error. */
  failWith(error: unknown): void {
    if (this.#outcome?.ok !== false) this.#outcome = { ok: false, error };
  }

  settle(onCallbackError: (error: unknown) => void): void {
    if (!this.#outcome?.ok) {
      this.reject(this.#outcome?.error);
      return;
    }
    for (const callback of this.#callbacks) {
      try {
        callback();
      } catch (error) {
        onCallbackError(error);
      }
    }
    this.resolve(this.#outcome.value as never);
  }
}

export type { Unit };

/** One commit may block the thread for this many ordinary units of work, or for this long. */
const UNITS_PER_COMMIT = 512;
const COMMIT_MS = 5;
/**
 * A commit may take as long as its first unit of work waited, up to this limit: under attack all other work on the
 * thread takes ten times as long, and a burst of messages would wait for it a dozen times.
 */
const MAX_COMMIT_MS = 25;
const UNITS_PER_CLOCK_READ = 4;
/**
 * A record of the commit log costs as much as about ten units of work plus a round trip. When more units of work wait,
 * one commit therefore spans several event-loop ticks, between which the thread does other work.
 */
const TICKS_PER_RECORD = 4;

const nextTick = () => new Promise<void>((resolve) => setImmediate(resolve));

export function createWriter(
  client: Database,
  onCallbackError: (error: unknown) => void,
  onCommit: () => void = () => {},
  logged: LoggedCommits | null = null,
  clock: () => number = () => performance.now(),
): Writer {
  const begin = client.prepare("BEGIN IMMEDIATE");
  const commit = client.prepare("COMMIT");
  const rollback = client.prepare("ROLLBACK");
  const savepoint = client.prepare("SAVEPOINT unit");
  const release = client.prepare("RELEASE unit");
  const undo = client.prepare("ROLLBACK TO unit");

  const queue: Unit[] = [];
  let scheduled = false;
  let waitingSince = 0;
  const drained: (() => void)[] = [];

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    waitingSince = clock();
    setImmediate(flush);
  }

  function flush(): void {
    const units = queue.splice(0, UNITS_PER_COMMIT);
    if (logged !== null) return void commitToLog(units, logged);
    settle(units, units.length > 0 && commitTogether(units));
  }

  /**
   * Runs as many units of work as the time limit allows; the others are removed from `units` and go back to the front
   * of the queue.
   */
  function runAll(units: Unit[], isFirstTick = true): void {
    // A single unit of work needs no savepoint, because it is rolled back together with the transaction.
    const alone = units.length === 1 && isFirstTick;
    const startedAt = clock();
    const endsAt = startedAt + Math.min(MAX_COMMIT_MS, Math.max(COMMIT_MS, startedAt - waitingSince));
    for (const [done, unit] of units.entries()) {
      if (done > 0 && done % UNITS_PER_CLOCK_READ === 0 && clock() >= endsAt) {
        queue.unshift(...units.splice(done));
        return;
      }
      if (alone || unit.checksFirst) runPlain(unit, alone);
      else runInSavepoint(unit);
    }
  }

  function settle(units: Unit[], committed: boolean): void {
    scheduled = false;
    for (const unit of units) unit.settle(onCallbackError);
    if (committed) onCommit();
    if (queue.length > 0) schedule();
    else for (const done of drained.splice(0)) done();
  }

  /** Units of work that are submitted in the meantime share the next commit. */
  async function commitToLog(units: Unit[], log: LoggedCommits): Promise<void> {
    try {
      log.begin();
      log.run(() => runAll(units));
      for (let tick = 1; tick < TICKS_PER_RECORD && queue.length > 0; tick++) {
        waitingSince = clock();
        await nextTick();
        const more = queue.splice(0, UNITS_PER_COMMIT);
        try {
          log.run(() => runAll(more, false));
        } finally {
          units.push(...more);
        }
      }
      await log.append();
      // No await from here on: a reader must not see the commit before its events are published.
      log.commit();
    } catch (error) {
      log.rollback();
      failAll(units, error);
      // Units of work that were submitted while the log did not respond fail too: they have waited as long.
      if (log.isLogUnavailable(error)) {
        const late = queue.splice(0);
        failAll(late, error);
        for (const unit of late) unit.settle(onCallbackError);
      }
      return settle(units, false);
    }
    settle(units, true);
  }

  function commitTogether(units: Unit[]): boolean {
    try {
      begin.run();
      runAll(units);
      commit.run();
      return true;
    } catch (error) {
      // The whole transaction failed (disk full, I/O error): no unit of work is on disk.
      undoAll();
      failAll(units, error);
      return false;
    }
  }

  function failAll(units: Unit[], error: unknown): void {
    // The error of one caller's unit of work must not leak to other callers.
    const isShared = error instanceof SQLiteError || logged?.concernsWholeCommit(error);
    const shared = isShared ? error : new Error("rolled back with another unit of work", { cause: error });
    for (const unit of units) unit.failWith(shared);
  }

  function undoAll(): void {
    try {
      // A prepared statement still works on a client that was closed in the meantime; without the rollback, BEGIN would
      // keep the lock.
      rollback.run();
    } catch {
      // SQLite has already rolled back by itself.
    }
  }

  function runPlain(unit: Unit, alone: boolean): void {
    try {
      unit.run();
    } catch (error) {
      if (alone || !client.inTransaction || unit.hasChanged) throw error;
    }
  }

  function runInSavepoint(unit: Unit): void {
    savepoint.run();
    try {
      unit.run();
      release.run();
    } catch (error) {
      unit.failWith(error);
      // Some errors make SQLite roll back the whole transaction by itself.
      if (!client.inTransaction) throw error;
      undo.run();
      release.run();
    }
  }

  const enqueue = <T>(work: (unit: Unit) => T, checksFirst: boolean): Promise<T> =>
    new Promise((resolve, reject) => {
      queue.push(new Unit(work, checksFirst, resolve as (value: never) => void, reject));
      schedule();
    });

  return {
    write: (work) => enqueue(work, false),
    checkThenWrite: (work) => enqueue(work, true),
    drain: () => (queue.length === 0 && !scheduled ? Promise.resolve() : new Promise((done) => drained.push(done))),
  };
}
