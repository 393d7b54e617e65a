import { type Database, SQLiteError } from "bun:sqlite";
import type { LoggedCommits } from "./logged-commits.ts";

/**
 * Group commit. Everything that waits for durability runs as a synchronous unit of work; all units that arrive while
 * one commit is under way share the next, so that one fsync serves many callers. Order of arrival is kept, and an
 * error in one unit of `write` rolls back that unit alone.
 */
export type Writer = {
  /** Runs `work` in the next shared transaction; resolves once it is on disk. */
  write<T>(work: (unit: Unit) => NotPromise<T>): Promise<T>;
  /**
   * The same for work that makes all its checks before its first change: it needs no savepoint, which costs a tenth of
   * a send. Should it fail after a change all the same, everybody in that commit fails with it.
   */
  checkThenWrite<T>(work: (unit: Unit) => NotPromise<T>): Promise<T>;
  /** Waits until everything handed in so far has been committed. */
  drain(): Promise<void>;
};

// An async callback would leave the transaction at its first await.
type NotPromise<T> = T extends PromiseLike<unknown> ? never : T;

/**
 * One unit of work, which only the writer makes: whatever changes rows takes it as its first parameter, so that a
 * change outside a transaction does not compile. Kept and used after its work has returned, it throws.
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

  /** Runs when the work is on disk, before its caller goes on. Never runs when the work fails. */
  afterCommit(callback: () => void): void {
    this.requireRunning();
    this.#callbacks.push(callback);
  }

  /** Before each change. */
  requireRunning(): void {
    if (!this.#running) throw new Error("this unit of work is over");
  }

  /** After each change: what failed by itself has changed nothing. */
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

  /** The transaction that it shared failed; one that was refused on its own keeps its own reason. */
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

/** Bound how long one commit may hold the thread: ordinary units by their number, those that take long by their time. */
const UNITS_PER_COMMIT = 512;
const COMMIT_MS = 5;
/**
 * Or for as long as it was waited for, up to here: under attack everything else that the thread does takes ten times as
 * long, and a burst of sends would wait for that a dozen times.
 */
const MOST_COMMIT_MS = 25;
const LOOK_AT_THE_CLOCK_EVERY = 4;
/**
 * A record of a log costs as much again as some ten units, and is waited for. So with more at the door one commit takes
 * several such turns, between which the thread is free for everybody else.
 */
const TURNS_PER_RECORD = 4;

const nextTurn = () => new Promise<void>((resolve) => setImmediate(resolve));

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
  const idle: (() => void)[] = [];

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

  /** As many as there is time for; the others go back to the front of the line, and are no longer among `units`. */
  function runAll(units: Unit[], isFirstTurn = true): void {
    // Whoever is alone needs no savepoint: to undo it is to undo everything.
    const alone = units.length === 1 && isFirstTurn;
    const startedAt = clock();
    const endsAt = startedAt + Math.min(MOST_COMMIT_MS, Math.max(COMMIT_MS, startedAt - waitingSince));
    for (const [done, unit] of units.entries()) {
      if (done > 0 && done % LOOK_AT_THE_CLOCK_EVERY === 0 && clock() >= endsAt) {
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
    else for (const done of idle.splice(0)) done();
  }

  /** The next commit waits: units that arrive meanwhile share it. */
  async function commitToLog(units: Unit[], log: LoggedCommits): Promise<void> {
    try {
      log.begin();
      log.run(() => runAll(units));
      for (let turn = 1; turn < TURNS_PER_RECORD && queue.length > 0; turn++) {
        waitingSince = clock();
        await nextTurn();
        const more = queue.splice(0, UNITS_PER_COMMIT);
        try {
          log.run(() => runAll(more, false));
        } finally {
          units.push(...more);
        }
      }
      await log.append();
      // From here on without an await: whoever reads a commit must have been told of it before, or be told after.
      log.commit();
    } catch (error) {
      log.rollback();
      failAll(units, error);
      // Whoever came while the log was away has waited as long as those.
      if (log.isAway(error)) {
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
      runTogether(units);
      return true;
    } catch (error) {
      // The transaction as a whole failed (disk full, I/O error): nobody's work is on disk.
      undoAll();
      failAll(units, error);
      return false;
    }
  }

  function failAll(units: Unit[], error: unknown): void {
    // Why somebody else was refused is not for the others to hear.
    const isShared = error instanceof SQLiteError || logged?.isOwn(error);
    const shared = isShared ? error : new Error("undone with another's work", { cause: error });
    for (const unit of units) unit.failWith(shared);
  }

  function undoAll(): void {
    try {
      // Prepared: on a client that was closed meanwhile this still works, and BEGIN holds the lock until it is done.
      rollback.run();
    } catch {
      // SQLite has abandoned the transaction on its own: there is nothing left to undo.
    }
  }

  function runTogether(units: Unit[]): void {
    begin.run();
    runAll(units);
    commit.run();
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
      // Some errors make SQLite abandon the whole transaction on its own.
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
    drain: () => (queue.length === 0 && !scheduled ? Promise.resolve() : new Promise((done) => idle.push(done))),
  };
}
