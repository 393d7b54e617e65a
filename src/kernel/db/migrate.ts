import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import type { Db } from "./open.ts";

export type Migration = { name: string; sql: string; hash: string };

/** The server must not start; the message tells the operator what to do. */
export class MigrationRefused extends Error {
  override readonly name = "MigrationRefused";
}

export function readMigrations(folder: string): Migration[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith(".sql"))
    .sort()
    .map((name) => {
      const sql = readFileSync(join(folder, name), "utf8");
      return { name: name.slice(0, -".sql".length), sql, hash: createHash("sha256").update(sql).digest("hex") };
    });
}

type Applied = { name: string; hash: string };

function applied(db: Db): Applied[] {
  db.$client.run(
    "CREATE TABLE IF NOT EXISTS schema_migrations (name TEXT PRIMARY KEY, hash TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT",
  );
  return db.$client.query<Applied, []>("SELECT name, hash FROM schema_migrations ORDER BY name").all();
}

/** The migrations that `migrate` would apply; throws when this binary must not use the database. */
export function pendingMigrations(db: Db, migrations: Migration[]): Migration[] {
  const known = new Map(migrations.map((m) => [m.name, m.hash]));
  const done = applied(db);
  for (const { name, hash } of done) {
    const ours = known.get(name);
    if (ours === undefined) {
      throw new MigrationRefused(
        `The database was written by a newer Stoa (it holds migration ${name}). Use that version, or restore a backup made before the upgrade.`,
      );
    }
    if (ours !== hash) {
      throw new MigrationRefused(`Migration ${name} differs from the one this database was made with.`);
    }
  }
  const names = new Set(done.map((row) => row.name));
  return migrations.filter((m) => !names.has(m.name));
}

/**
 * Brings the schema up to date, all or nothing. `snapshot` is called before a database with data is changed. Foreign keys
 * are off during the migration: a rebuilt table would otherwise cascade its deletion to every child row, and the pragma is
 * ignored inside the transaction.
 */
export function migrate(db: Db, migrations: Migration[], now: number, snapshot?: () => void): string[] {
  const pending = pendingMigrations(db, migrations);
  if (pending.length === 0) return [];
  if (pending.length < migrations.length) snapshot?.();
  const { $client: client } = db;
  client.run("PRAGMA foreign_keys = OFF");
  try {
    client.run("BEGIN IMMEDIATE");
    try {
      for (const { name, sql, hash } of pending) {
        named(name, () => client.run(sql));
        client.run("INSERT INTO schema_migrations VALUES (?, ?, ?)", [name, hash, now]);
      }
      const orphans = client.query("PRAGMA foreign_key_check").all();
      if (orphans.length > 0) throw new MigrationRefused(`The migration would orphan ${orphans.length} rows.`);
      client.run("COMMIT");
    } catch (error) {
      // On a full disk SQLite has rolled back by itself, and an error about that would hide the reason.
      if (client.inTransaction) client.run("ROLLBACK");
      throw error;
    }
  } finally {
    client.run("PRAGMA foreign_keys = ON");
  }
  return pending.map((m) => m.name);
}

/** Names the migration in an error, because SQLite's errors do not say which statement failed. */
function named(migration: string, run: () => void): void {
  try {
    run();
  } catch (error) {
    if (error instanceof Error) error.message = `Migration ${migration} failed: ${error.message}`;
    throw error;
  }
}
