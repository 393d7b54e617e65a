import type { Database, SQLQueryBindings } from "bun:sqlite";
import { drizzle } from "drizzle-orm/bun-sqlite";
import type { PlainStatement, RecordingConnection } from "./changesets.ts";
import type { Db } from "./open.ts";

/**
 * One client over two connections to one file. Units of work run on the connection that records changesets; all other
 * reads use the other connection, which sees a commit only when the log has it: no client sees data that another server
 * may not have.
 */
export class SplitClient {
  /** Set by the writer while units of work run. */
  inUnits = false;
  readonly #cached = new Map<string, SplitStatement>();

  constructor(
    readonly recording: RecordingConnection,
    readonly reader: Database,
  ) {
    // A change outside of a unit of work would never reach the log.
    reader.run("PRAGMA query_only = ON");
  }

  get filename(): string {
    return this.reader.filename;
  }

  get inTransaction(): boolean {
    return this.recording.inTransaction;
  }

  prepare(sql: string): SplitStatement {
    return new SplitStatement(this, sql);
  }

  query(sql: string): SplitStatement {
    const known = this.#cached.get(sql) ?? new SplitStatement(this, sql);
    this.#cached.set(sql, known);
    return known;
  }

  run(sql: string, values: SQLQueryBindings[] = []): unknown {
    return this.prepare(sql).run(...values);
  }

  close(): void {
    this.recording.close();
    this.reader.close();
  }
}

class SplitStatement implements PlainStatement {
  #write: PlainStatement | null = null;
  #read: PlainStatement | null = null;

  constructor(
    private readonly client: SplitClient,
    private readonly sql: string,
  ) {}

  get(...values: SQLQueryBindings[]): unknown {
    return this.#statement().get(...values);
  }

  all(...values: SQLQueryBindings[]): unknown[] {
    return this.#statement().all(...values);
  }

  values(...values: SQLQueryBindings[]): unknown[][] {
    return this.#statement().values(...values);
  }

  run(...values: SQLQueryBindings[]): { changes: number; lastInsertRowid: number | bigint } {
    return this.#statement().run(...values);
  }

  #statement(): PlainStatement {
    if (this.client.inUnits) {
      this.#write ??= this.client.recording.prepare(this.sql);
      return this.#write;
    }
    this.#read ??= this.client.reader.prepare(this.sql) as unknown as PlainStatement;
    return this.#read;
  }
}

/** Stores and drizzle use the client like a plain database. */
export function splitDatabase(client: SplitClient): Db {
  return drizzle({ client: client as unknown as Database }) as Db;
}

/** Releases the memory of pages that are not in use. */
export function releaseMemory(client: Database | SplitClient): void {
  const connections = client instanceof SplitClient ? [client.recording, client.reader] : [client];
  for (const connection of connections) connection.exec("PRAGMA shrink_memory");
}

/** From now on every write fails, and none is acknowledged that would be lost. */
export function refuseWrites(client: Database | SplitClient): void {
  const writing = client instanceof SplitClient ? client.recording : client;
  writing.exec("PRAGMA query_only = ON");
}
