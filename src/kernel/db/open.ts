import { Database } from "bun:sqlite";
import { type BunSQLiteDatabase, drizzle } from "drizzle-orm/bun-sqlite";

export type Db = BunSQLiteDatabase & { $client: Database };

export type Durability = "FULL" | "OFF";

export const BUSY_TIMEOUT_MS = 5_000;
/** As much of the file is read by way of the system's own cache, without a copy. */
export const MAP_DATABASE = "PRAGMA mmap_size = 268435456";

/** One connection with the pragmas that the whole product relies on. */
export function openDatabase(path: string, options: { durability?: Durability; readonly?: boolean } = {}): Db {
  const client = new Database(path, options.readonly ? { readonly: true } : { create: true });
  applyPragmas(client, options.durability ?? "FULL", options.readonly ?? false);
  return drizzle({ client }) as Db;
}

function applyPragmas(client: Database, durability: Durability, readonly: boolean): void {
  // First, or switching the journal mode itself fails with SQLITE_BUSY while another process holds the file.
  client.run(`PRAGMA busy_timeout = ${BUSY_TIMEOUT_MS}`);
  if (!readonly) client.run("PRAGMA journal_mode = WAL");
  // FULL: in WAL mode NORMAL survives a killed process but loses the last commits on power failure.
  client.run(`PRAGMA synchronous = ${durability}`);
  client.run("PRAGMA foreign_keys = ON");
  // What somebody deleted is overwritten, not only forgotten. It costs no more than a few bytes of pages that change anyway.
  client.run("PRAGMA secure_delete = ON");
  // In pages. Ours come earlier, at a quiet moment (checkpoints.ts): this is for a log that grows without one.
  client.run("PRAGMA wal_autocheckpoint = 4000");
  client.run("PRAGMA temp_store = MEMORY");
  client.run("PRAGMA cache_size = -32768");
  client.run(MAP_DATABASE);
}

/** Folds the write-ahead log back into the file, so that a copy of it alone is whole. */
export function closeDatabase(db: Db): void {
  try {
    db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  } finally {
    db.$client.close();
  }
}
