import type { Now } from "../kernel/clock.ts";
import { ApplyingConnection } from "../kernel/db/changesets.ts";
import { type CommitLog, Overtaken } from "../kernel/db/commit-log.ts";
import { logPosition } from "../kernel/db/log-position.ts";
import { type Migration, pendingMigrations } from "../kernel/db/migrate.ts";
import { openDatabase } from "../kernel/db/open.ts";
import { beginTerm, Replica } from "./replica.ts";

type TakeOverDeps = { path: string; log: CommitLog; term: number; migrations: Migration[]; now: Now };

/**
 * What a server does before it leads: it writes the first record of its term, after which nothing of the one before
 * fits, and brings the schema up to date for everybody. What the one before wrote in the meantime is read first.
 */
export async function takeOver(deps: TakeOverDeps): Promise<void> {
  const { path, log, term } = deps;
  // Throws for a schema that this program does not know: another server has to lead.
  const pending = pendingOf(deps);
  for (;;) {
    try {
      await beginTerm(path, log, term);
      break;
    } catch (error) {
      if (!(error instanceof Overtaken)) throw error;
      await readRest(path, log);
    }
  }
  if (pending.length > 0) await migrateAll(deps, pending);
}

async function readRest(path: string, log: CommitLog): Promise<void> {
  const replica = new Replica(path);
  try {
    replica.apply(await log.read(replica.position, Number.MAX_SAFE_INTEGER));
  } finally {
    replica.close();
  }
}

function pendingOf({ path, migrations }: TakeOverDeps): Migration[] {
  const db = openDatabase(path);
  try {
    return pendingMigrations(db, migrations);
  } finally {
    db.$client.close();
  }
}

/** Tried here before anybody else gets to see it: a record that cannot be applied would stop every member. */
async function migrateAll({ path, log, now }: TakeOverDeps, migrations: Migration[]): Promise<void> {
  const connection = new ApplyingConnection(path);
  const at = now();
  try {
    const position = (logPosition(connection)?.position ?? 0) + 1;
    connection.exec("BEGIN IMMEDIATE");
    for (const { name, sql, hash } of migrations) {
      connection.migrate(sql);
      connection.prepare("INSERT INTO schema_migrations VALUES (?, ?, ?)").run(name, hash, at);
    }
    const orphans = connection.prepare("PRAGMA foreign_key_check").all();
    if (orphans.length > 0) throw new Error(`the migration would orphan ${orphans.length} rows`);
    connection.prepare("UPDATE log_position SET position = ? WHERE id = 1").run(position);
    await log.append(position, { kind: "migrations", migrations, at });
    connection.exec("COMMIT");
  } finally {
    // Ends a transaction that was not committed.
    connection.close();
  }
}
