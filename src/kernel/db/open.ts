import { Database, type Statement } from "bun:sqlite";
import { type BunSQLiteDatabase, drizzle } from "drizzle-orm/bun-sqlite";
import { type IdleThresholds, type IdleWatch, onIdle } from "../scheduling/idle.ts";
import { every, type Timers } from "../time/timers.ts";
import { addChecksumLayer, claimChecksums, reserveChecksums, withdrawChecksums } from "./checksums.ts";

export type Db = BunSQLiteDatabase & { $client: Database };

export type Durability = "FULL" | "OFF";

export const BUSY_TIMEOUT_MS = 5_000;
/** Reports every failed statement to `onError`, because any query may be the first to read a damaged page. */
export class ReportingDatabase extends Database {
  onError: (error: unknown) => void = () => {};

  readonly #reporting = new WeakSet<object>();

  override prepare: Database["prepare"] = (sql, ...args) => this.#report(super.prepare(sql, ...args));
  override query: Database["query"] = (sql) => this.#report(super.query(sql) as never);

  #report<Result extends Statement>(statement: Result): Result {
    if (this.#reporting.has(statement)) return statement;
    this.#reporting.add(statement);
    for (const method of ["get", "all", "run", "values"] as const) {
      const execute = statement[method].bind(statement) as (...values: unknown[]) => never;
      statement[method] = (...values: unknown[]) => {
        try {
          return execute(...values);
        } catch (error) {
          this.onError(error);
          throw error;
        }
      };
    }
    return statement;
  }
}

/**
 * A connection with the pragmas that the whole product relies on. The file is not mapped: a read error would raise
 * SIGBUS. Bytes are a serialized database, which is copied into memory.
 */
export function openDatabase(
  file: string | Uint8Array,
  options: { durability?: Durability; readonly?: boolean } = {},
): Db {
  const isLayered = typeof file === "string" && file !== ":memory:" && addChecksumLayer();
  // Bun's types leave out that the constructor takes bytes, as `Database.deserialize` passes them.
  const client = new ReportingDatabase(file as string, options.readonly ? { readonly: true } : { create: true });
  applyPragmas(client, options.durability ?? "FULL", options.readonly ?? false, isLayered);
  return drizzle({ client }) as Db;
}

function applyPragmas(client: Database, durability: Durability, readonly: boolean, isLayered: boolean): void {
  // This pragma comes first, because switching the journal mode would fail with SQLITE_BUSY while another process has
  // locked the file.
  client.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  const isNew = !readonly && isLayered && client.query("PRAGMA page_count").values()[0]?.[0] === 0;
  if (isNew) reserveChecksums(client);
  // This pragma and the checksums only affect a new file; `rewriteSmallDatabase` changes others.
  if (!readonly) client.run("PRAGMA auto_vacuum = INCREMENTAL");
  if (isNew) claimChecksums(client);
  if (!readonly && !isLayered) withdrawChecksums(client);
  if (!readonly) client.run("PRAGMA journal_mode = WAL");
  // FULL is needed: in WAL mode, NORMAL survives a killed process but loses the last commits on power failure.
  client.run(`PRAGMA synchronous = ${durability}`);
  client.run("PRAGMA foreign_keys = ON");
  // Deleted content is overwritten. This costs a few bytes in pages that are written anyway.
  client.run("PRAGMA secure_delete = ON");
  // The size is in pages. `checkpointWhenIdle` runs earlier, between commits; this limits a log that grows without a
  // pause.
  client.run("PRAGMA wal_autocheckpoint = 4000");
  client.run("PRAGMA temp_store = MEMORY");
  client.run("PRAGMA cache_size = -32768");
}

/** A checkpoint takes two fsyncs, which fewer commits do not justify. */
const BETWEEN_COMMITS: IdleThresholds = { minEvents: 50, checkEveryMs: 3, maxEvents: 0 };

/**
 * Checkpoints the write-ahead log while no commit waits. By itself SQLite would checkpoint within the commit that fills
 * the log, and that commit would take several times as long. The returned watch counts the commits.
 */
export function checkpointWhenIdle(client: Database, timers: Timers, onError: (error: unknown) => void): IdleWatch {
  const checkpoint = client.prepare("PRAGMA wal_checkpoint(PASSIVE)");
  return onIdle(BETWEEN_COMMITS, timers, () => checkpoint.run(), onError);
}

/** Checkpoints the write-ahead log into the file, so that the file is complete without it. */
export function closeDatabase(db: Db): void {
  try {
    db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    db.$client.close();
  }
}

const POLL_EVERY_MS = 250;

/**
 * Calls `onCommit` when another process has written to the database, such as the command line next to a running server:
 * caches may then be outdated, for example about a revoked key. A poll costs a few microseconds.
 */
export function watchForeignCommits(
  client: Database,
  deps: Parameters<typeof every>[0],
  onCommit: () => void,
): () => void {
  const read = client.query<{ data_version: number }, []>("PRAGMA data_version");
  let seen = read.get()?.data_version;
  return every(deps, POLL_EVERY_MS, () => {
    const version = read.get()?.data_version;
    if (version === seen) return;
    seen = version;
    onCommit();
  });
}
