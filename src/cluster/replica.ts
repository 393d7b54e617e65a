import { existsSync } from "node:fs";
import { ApplyingConnection, RecordingConnection, ReplicaDiffers } from "../kernel/db/changesets.ts";
import type { CommitLog, LogEntry } from "../kernel/db/commit-log.ts";
import { type LogPosition, logPosition } from "../kernel/db/log-position.ts";
import type { Migration } from "../kernel/db/migrate.ts";

/** The local file of a server that follows: a prefix of the log at any moment. */
export class Replica {
  readonly #connection: ApplyingConnection;
  #at: LogPosition;

  constructor(readonly path: string) {
    this.#connection = new ApplyingConnection(path);
    const at = logPosition(this.#connection);
    if (at === null) throw new ReplicaDiffers(`${path} belongs to no commit log`);
    this.#at = at;
  }

  get position(): number {
    return this.#at.position;
  }

  get term(): number {
    return this.#at.term;
  }

  /** All of them or none. Throws ReplicaDiffers when one does not fit, and the file has to be had anew. */
  apply(entries: readonly LogEntry[]): void {
    const last = entries.at(-1);
    if (last === undefined) return;
    this.#connection.together(() => {
      for (const { position, record } of entries) {
        if (record.kind === "changes") this.#connection.apply(record.changes);
        else this.#migrate(record.migrations, record.at, position);
      }
      const at = logPosition(this.#connection);
      if (at?.position !== last.position) {
        throw new ReplicaDiffers(`the file is at position ${at?.position}, and the log at ${last.position}`);
      }
      this.#at = at;
    });
  }

  close(): void {
    this.#connection.close();
  }

  #migrate(migrations: readonly Migration[], at: number, position: number): void {
    for (const { name, sql, hash } of migrations) {
      this.#connection.migrate(sql);
      this.#connection.prepare("INSERT INTO schema_migrations VALUES (?, ?, ?)").run(name, hash, at);
    }
    this.#connection.prepare("UPDATE log_position SET position = ? WHERE id = 1").run(position);
  }
}

/** What a data directory is to a log. */
export type Belonging = "nothing here" | "of no log" | "of another log" | "of this log";

export function belongingOf(path: string, logId: string): Belonging {
  if (!existsSync(path)) return "nothing here";
  const connection = new ApplyingConnection(path);
  try {
    const at = logPosition(connection);
    if (at === null) return "of no log";
    return at.logId === logId ? "of this log" : "of another log";
  } finally {
    connection.close();
  }
}

/** Makes a file, whose schema is up to date, the base of a log that is empty. */
export function becomeBase(path: string, logId: string): void {
  const connection = new ApplyingConnection(path);
  try {
    connection.together(() => {
      connection.prepare("DELETE FROM log_position").run();
      connection.prepare("INSERT INTO log_position VALUES (1, ?, 0, 0)").run(logId);
    });
  } finally {
    connection.close();
  }
}

/** Writes the first record of a term; from then on nobody else's fits. Throws Overtaken when something newer is there. */
export async function beginTerm(path: string, log: Pick<CommitLog, "append">, term: number): Promise<void> {
  const connection = new RecordingConnection(path);
  try {
    const at = logPosition(connection);
    if (at === null) throw new ReplicaDiffers(`${path} belongs to no commit log`);
    connection.begin();
    connection.prepare("UPDATE log_position SET position = ?, term = ? WHERE id = 1").run(at.position + 1, term);
    await log.append(at.position + 1, { kind: "changes", changes: connection.changes() });
    connection.commit();
  } finally {
    connection.rollback();
    connection.close();
  }
}
