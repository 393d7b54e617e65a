/** Empty databases with the current schema, migrated once for all servers of a process: that takes longer than most tests. */
import { existsSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { assetFolder } from "../../src/kernel/assets.ts";
import { migrate, readMigrations } from "../../src/kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../../src/kernel/db/open.ts";

let serialized: Uint8Array | null = null;

/** For `inMemory`. */
export function emptyDatabase(): Uint8Array {
  if (serialized !== null) return serialized;
  const db = openDatabase(":memory:");
  migrate(db, readMigrations(assetFolder("migrations")), 0);
  serialized = db.$client.serialize();
  db.$client.close();
  return serialized;
}

/** The path of a file to copy. */
export function emptyDatabaseFile(): string {
  const path = join(tmpdir(), `stoa-schema-${process.pid}.db`);
  if (existsSync(path)) return path;
  const db = openDatabase(path, { durability: "OFF" });
  migrate(db, readMigrations(assetFolder("migrations")), 0);
  closeDatabase(db);
  process.once("exit", () => rmSync(path, { force: true }));
  return path;
}
