import type { SQLQueryBindings } from "bun:sqlite";
import { constants, DatabaseSync, type Session, type SQLInputValue, type StatementSync } from "node:sqlite";
import { addChecksumLayer, withdrawChecksums } from "./checksums.ts";
import { BUSY_TIMEOUT_MS } from "./open.ts";

/*
 * Changesets come from SQLite's session extension, which node:sqlite offers and bun:sqlite does not. Bun's node:sqlite
 * is new, so nothing else uses it.
 */

export type PlainStatement = {
  get(...values: SQLQueryBindings[]): unknown;
  all(...values: SQLQueryBindings[]): unknown[];
  values(...values: SQLQueryBindings[]): unknown[][];
  run(...values: SQLQueryBindings[]): { changes: number; lastInsertRowid: number | bigint };
};

/** The only connection that writes; it records its changes. */
export class RecordingConnection {
  /** Any statement may be the first to read a damaged page. */
  onError: (error: unknown) => void = () => {};
  readonly #client: DatabaseSync;
  readonly #execute = new Map<string, StatementSync>();
  #session: Session | null = null;

  constructor(path: string) {
    this.#client = openNodeClient(path, true);
  }

  prepare(sql: string): PlainStatement {
    return new RecordedStatement(this.#client, sql, (error) => this.onError(error));
  }

  exec(sql: string): void {
    this.#client.exec(sql);
  }

  get inTransaction(): boolean {
    return this.#client.isTransaction;
  }

  begin(): void {
    this.#run("BEGIN IMMEDIATE");
    this.#session = this.#client.createSession();
  }

  changes(): Uint8Array {
    if (this.#session === null) throw new Error("nothing is being recorded");
    return this.#session.changeset();
  }

  commit(): void {
    this.#endSession();
    this.#run("COMMIT");
  }

  rollback(): void {
    this.#endSession();
    // Some errors make SQLite roll back the transaction by itself, and so does closing the connection.
    if (this.#client.isOpen && this.inTransaction) this.#run("ROLLBACK");
  }

  close(): void {
    this.#endSession();
    if (this.#client.isOpen) this.#client.close();
  }

  #endSession(): void {
    this.#session?.close();
    this.#session = null;
  }

  #run(sql: string): void {
    const known = this.#execute.get(sql) ?? this.#client.prepare(sql);
    this.#execute.set(sql, known);
    try {
      known.run();
    } catch (error) {
      this.onError(error);
      throw error;
    }
  }
}

class RecordedStatement implements PlainStatement {
  readonly #rows: StatementSync;
  #arrays: StatementSync | null = null;

  constructor(
    private readonly client: DatabaseSync,
    private readonly sql: string,
    private readonly onError: (error: unknown) => void = () => {},
  ) {
    this.#rows = client.prepare(sql);
  }

  get(...values: SQLQueryBindings[]): unknown {
    return this.#reporting(() => this.#rows.get(...bindable(values)) ?? null);
  }

  all(...values: SQLQueryBindings[]): unknown[] {
    return this.#reporting(() => this.#rows.all(...bindable(values)));
  }

  values(...values: SQLQueryBindings[]): unknown[][] {
    if (this.#arrays === null) {
      this.#arrays = this.client.prepare(this.sql);
      this.#arrays.setReturnArrays(true);
    }
    const arrays = this.#arrays;
    return this.#reporting(() => arrays.all(...bindable(values)) as unknown as unknown[][]);
  }

  run(...values: SQLQueryBindings[]): { changes: number; lastInsertRowid: number | bigint } {
    return this.#reporting(() => this.#rows.run(...bindable(values)) as ReturnType<PlainStatement["run"]>);
  }

  #reporting<Result>(execute: () => Result): Result {
    try {
      return execute();
    } catch (error) {
      this.onError(error);
      throw error;
    }
  }
}

/** The values are converted in place, because this runs for every statement of every unit of work. */
function bindable(values: SQLQueryBindings[]): SQLInputValue[] {
  for (let index = 0; index < values.length; index++) {
    const value = values[index];
    // A number would be bound as REAL, and `1` would be stored as `1.0` in columns without a numeric affinity.
    if (typeof value === "number") {
      if (Number.isSafeInteger(value)) values[index] = BigInt(value);
    } else if (typeof value === "boolean") values[index] = value ? 1n : 0n;
    else if (value === undefined) values[index] = null;
  }
  return values as SQLInputValue[];
}

/** The local file does not have the state that the log assumes. */
export class ReplicaDiverged extends Error {
  override readonly name = "ReplicaDiverged";
}

/** Applies the changesets of another server's transactions. */
export class ApplyingConnection {
  readonly #client: DatabaseSync;

  constructor(path: string) {
    this.#client = openNodeClient(path, false);
    this.#ignoreTriggers();
  }

  prepare(sql: string): PlainStatement {
    return new RecordedStatement(this.#client, sql);
  }

  exec(sql: string): void {
    this.#client.exec(sql);
  }

  transaction(work: () => void): void {
    this.#client.exec("BEGIN IMMEDIATE");
    try {
      work();
      this.#client.exec("COMMIT");
    } catch (error) {
      if (this.#client.isTransaction) this.#client.exec("ROLLBACK");
      throw error;
    }
  }

  /** Throws when an old value differs from the value that the writer replaced. */
  apply(changes: Uint8Array): void {
    let conflict = "";
    const done = this.#client.applyChangeset(changes, {
      onConflict: (kind: number) => {
        conflict = CONFLICTS[kind] ?? `conflict ${kind}`;
        return constants.SQLITE_CHANGESET_ABORT;
      },
    });
    if (!done) throw new ReplicaDiverged(`a change from the commit log does not fit (${conflict})`);
  }

  /** Runs the statements of a migration with triggers, as on the server that ran it first. */
  migrate(sql: string): void {
    this.#client.setAuthorizer(null);
    this.#client.exec(sql);
    this.#ignoreTriggers();
  }

  /** A changeset already includes the effects of cascades and triggers. */
  #ignoreTriggers(): void {
    this.#client.setAuthorizer((_action, _first, _second, _database, trigger) =>
      trigger === null ? constants.SQLITE_OK : constants.SQLITE_IGNORE,
    );
  }

  close(): void {
    this.#client.close();
  }
}

const CONFLICTS: Record<number, string> = {
  [constants.SQLITE_CHANGESET_DATA]: "a row has another value",
  [constants.SQLITE_CHANGESET_NOTFOUND]: "a row is missing",
  [constants.SQLITE_CHANGESET_CONFLICT]: "a row is there already",
  // SQLITE_CHANGESET_CONSTRAINT, which the types of node:sqlite lack.
  4: "a constraint is violated",
  [constants.SQLITE_CHANGESET_FOREIGN_KEY]: "a row that others need is missing",
};

function openNodeClient(path: string, foreignKeys: boolean): DatabaseSync {
  addChecksumLayer();
  // Defensive mode would forbid changing the shadow tables of the full-text search.
  const client = new DatabaseSync(path, {
    enableForeignKeyConstraints: foreignKeys,
    defensive: false,
    timeout: BUSY_TIMEOUT_MS,
  });
  client.exec("PRAGMA journal_mode = WAL");
  withdrawChecksums(client);
  // A commit that this file loses in a power failure is read again from the commit log.
  client.exec("PRAGMA synchronous = NORMAL");
  client.exec("PRAGMA secure_delete = ON");
  client.exec("PRAGMA wal_autocheckpoint = 4000");
  client.exec("PRAGMA temp_store = MEMORY");
  client.exec("PRAGMA cache_size = -32768");
  return client;
}
