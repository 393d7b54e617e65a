import { existsSync } from "node:fs";
import { ApplyingConnection, ReplicaDiverged } from "../kernel/db/changesets.ts";
import type { LogEntry, MigrationName } from "../kernel/db/commit-log.ts";
import { isSealed, type LogPosition, logPosition } from "../kernel/db/log-position.ts";
import { type Migration, MigrationRefused } from "../kernel/db/migrate.ts";

/** The database of a follower; at any time it contains a prefix of the log. */
export class Replica {
  readonly #connection: ApplyingConnection;
  #at: LogPosition;

  constructor(
    readonly path: string,
    private readonly migrations: readonly Migration[],
  ) {
    this.#connection = new ApplyingConnection(path);
    const at = logPosition(this.#connection);
    if (at === null) throw new ReplicaDiverged(`${path} belongs to no commit log`);
    this.#at = at;
  }

  get position(): number {
    return this.#at.position;
  }

  get term(): number {
    return this.#at.term;
  }

  /** Applies all entries or none. Throws ReplicaDiverged when an entry does not fit and a new snapshot is needed. */
  apply(entries: readonly LogEntry[]): void {
    const last = entries.at(-1);
    if (last === undefined) return;
    this.#connection.transaction(() => {
      for (const { position, record } of entries) {
        if (record.kind === "changes") this.#connection.apply(record.changes);
        else this.#migrate(record.migrations, record.at, position);
      }
      const at = logPosition(this.#connection);
      if (at?.position !== last.position) {
        throw new ReplicaDiverged(`the file is at position ${at?.position}, and the log at ${last.position}`);
      }
      this.#at = at;
    });
  }

  close(): void {
    this.#connection.close();
  }

  /** Runs this program's own statements: the log contains only their names. */
  #migrate(migrations: readonly MigrationName[], at: number, position: number): void {
    for (const { name, hash } of migrations) {
      const own = this.migrations.find((migration) => migration.name === name && migration.hash === hash);
      if (own === undefined) {
        throw new MigrationRefused(
          `The servers of this commit log use a newer Stoa (migration ${name}). Upgrade this one.`,
        );
      }
      this.#connection.migrate(own.sql);
      this.#connection.prepare("INSERT INTO schema_migrations VALUES (?, ?, ?)").run(name, hash, at);
    }
    this.#connection.prepare("UPDATE log_position SET position = ? WHERE id = 1").run(position);
  }
}

/** Where the data of a directory comes from, as seen by one log. */
type DataOrigin = "no data" | "no log" | "another log" | "this log";

export function dataOrigin(path: string, logId: string): DataOrigin {
  if (!existsSync(path)) return "no data";
  const connection = new ApplyingConnection(path);
  try {
    const at = logPosition(connection);
    if (at === null) return "no log";
    return at.logId === logId ? "this log" : "another log";
  } finally {
    connection.close();
  }
}

/** Whether a database accepts authenticated records only; false without a database. */
export function requiresSeals(path: string): boolean {
  if (!existsSync(path)) return false;
  const connection = new ApplyingConnection(path);
  try {
    return isSealed(connection);
  } finally {
    connection.close();
  }
}

/** Makes a database with the current schema the base of an empty log. */
export function makeLogBase(path: string, logId: string): void {
  const connection = new ApplyingConnection(path);
  try {
    connection.transaction(() => {
      connection.prepare("DELETE FROM log_position").run();
      connection.prepare("INSERT INTO log_position (id, log_id, position, term) VALUES (1, ?, 0, 0)").run(logId);
    });
  } finally {
    connection.close();
  }
}
