import { type Database, SQLiteError } from "bun:sqlite";

/**
 * Group commit. Everything that waits for durability runs as a synchronous unit of work; all units that arrive while
 * one commit is under way share the next, so that one fsync serves many callers. Order of arrival is kept, and an
 * error in one unit of `write` rolls back that unit alone.
 */
export type Writer = {
  /** Runs `work` in the next shared transaction; resolves once it is on disk. */
  write<T>(work: () => NotPromise<T>): Promise<T>;
  /**
   * The same for work that makes all its checks before its first change: it needs no savepoint, which costs a tenth of
   * a send. Should it fail after a change all the same, everybody in that commit fails with it.
   */
  checkThenWrite<T>(work: () => NotPromise<T>): Promise<T>;
  /** Inside a unit of work: runs when it is on disk, before its caller goes on. Never runs when the unit fails. */
  afterCommit(callback: () => void): void;
  readonly inUnit: boolean;
  /** Waits until everything handed in so far has been committed. */
  drain(): Promise<void>;
};

// An async callback would leave the transaction at its first await.
type NotPromise<T> = T extends PromiseLike<unknown> ? never : T;

type Unit = {
  work: () => unknown;
  checksFirst: boolean;
  resolve: (value: never) => void;
  reject: (error: unknown) => void;
  callbacks: (() => void)[];
  outcome: { ok: true; value: unknown } | { ok: false; error: unknown } | null;
};

/** Bounds how long one commit may hold the thread. */
const UNITS_PER_COMMIT = 512;

export function createWriter(
  client: Database,
  onCallbackError: (error: unknown) => void,
  onCommit: () => void = () => {},
): Writer {
  const begin = client.prepare("BEGIN IMMEDIATE");
  const commit = client.prepare("COMMIT");
  const savepoint = client.prepare("SAVEPOINT unit");
  const release = client.prepare("RELEASE unit");
  const undo = client.prepare("ROLLBACK TO unit");
  const changes = client.prepare<{ total: number }, []>("SELECT total_changes() AS total");

  const queue: Unit[] = [];
  let scheduled = false;
  let current: Unit | null = null;
  const idle: (() => void)[] = [];

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    setImmediate(flush);
  }

  function flush(): void {
    scheduled = false;
    const units = queue.splice(0, UNITS_PER_COMMIT);
    if (units.length > 0) {
      const committed = commitTogether(units);
      units.forEach(settle);
      if (committed) onCommit();
    }
    if (queue.length > 0) schedule();
    else for (const done of idle.splice(0)) done();
  }

  function commitTogether(units: Unit[]): boolean {
    try {
      runTogether(units);
      return true;
    } catch (error) {
      // The transaction as a whole failed (disk full, I/O error): nobody's work is on disk.
      undoAll();
      // Why somebody else was refused is not for the others to hear.
      const shared = error instanceof SQLiteError ? error : new Error("undone with another's work", { cause: error });
      for (const unit of units) if (unit.outcome?.ok !== false) unit.outcome = { ok: false, error: shared };
      return false;
    }
  }

  function undoAll(): void {
    try {
      if (client.inTransaction) client.run("ROLLBACK");
    } catch {
      // Closed meanwhile: there is nothing left to undo, and whoever waits is told that the write failed.
    }
  }

  function runTogether(units: Unit[]): void {
    begin.run();
    // Whoever is alone needs no savepoint: to undo it is to undo everything.
    const alone = units.length === 1;
    for (const unit of units) {
      current = unit;
      try {
        if (alone || unit.checksFirst) runPlain(unit, alone);
        else runInSavepoint(unit);
      } finally {
        current = null;
      }
    }
    commit.run();
  }

  function runPlain(unit: Unit, alone: boolean): void {
    const before = alone ? 0 : changes.get()?.total;
    try {
      unit.outcome = { ok: true, value: resultOf(unit) };
    } catch (error) {
      unit.outcome = { ok: false, error };
      if (alone || !client.inTransaction || changes.get()?.total !== before) throw error;
    }
  }

  function runInSavepoint(unit: Unit): void {
    savepoint.run();
    try {
      unit.outcome = { ok: true, value: resultOf(unit) };
      release.run();
    } catch (error) {
      unit.outcome = { ok: false, error };
      // Some errors make SQLite abandon the whole transaction on its own.
      if (!client.inTransaction) throw error;
      undo.run();
      release.run();
    }
  }

  function settle(unit: Unit): void {
    if (!unit.outcome?.ok) {
      unit.reject(unit.outcome?.error);
      return;
    }
    for (const callback of unit.callbacks) {
      try {
        callback();
      } catch (error) {
        onCallbackError(error);
      }
    }
    unit.resolve(unit.outcome.value as never);
  }

  const enqueue = <T>(work: () => T, checksFirst: boolean): Promise<T> =>
    new Promise((resolve, reject) => {
      queue.push({
        work,
        checksFirst,
        resolve: resolve as (value: never) => void,
        reject,
        callbacks: [],
        outcome: null,
      });
      schedule();
    });

  return {
    write: (work) => enqueue(work, false),
    checkThenWrite: (work) => enqueue(work, true),
    afterCommit(callback) {
      if (!current) throw new Error("afterCommit needs a unit of work");
      current.callbacks.push(callback);
    },
    get inUnit() {
      return current !== null;
    },
    drain: () => (queue.length === 0 && !scheduled ? Promise.resolve() : new Promise((done) => idle.push(done))),
  };
}

function resultOf(unit: Unit): unknown {
  const value = unit.work();
  if (value instanceof Promise) throw new TypeError("a unit of work must be synchronous");
  return value;
}
