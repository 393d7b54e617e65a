import { ApplyingConnection, RecordingConnection, ReplicaDiverged } from "../kernel/db/changesets.ts";
import { type CommitLog, PositionTaken } from "../kernel/db/commit-log.ts";
import { logPosition } from "../kernel/db/log-position.ts";
import { type Migration, pendingMigrations } from "../kernel/db/migrate.ts";
import { openDatabase } from "../kernel/db/open.ts";
import type { Now } from "../kernel/time/clock.ts";
import { Replica } from "./replica.ts";

type TakeOverDeps = { path: string; log: CommitLog; term: number; migrations: Migration[]; now: Now };

/**
 * Prepares a server to lead. The first record of its term makes every later record of the previous leader invalid;
 * earlier records of the previous leader are applied first. Then the schema is migrated for all members.
 */
export async function takeOver(deps: TakeOverDeps): Promise<void> {
  const { path, log, term } = deps;
  // Throws for a schema newer than this program, so that another server becomes the leader.
  const pending = findPending(deps);
  for (;;) {
    try {
      await beginTerm(path, log, term);
      break;
    } catch (error) {
      if (!(error instanceof PositionTaken)) throw error;
      await applyRest(deps);
    }
  }
  if (pending.length > 0) await migrateAll(deps, pending);
}

async function applyRest({ path, log, migrations }: TakeOverDeps): Promise<void> {
  const replica = new Replica(path, migrations);
  try {
    replica.apply(await log.read(replica.position, Number.MAX_SAFE_INTEGER));
  } finally {
    replica.close();
  }
}

function findPending({ path, migrations }: TakeOverDeps): Migration[] {
  const db = openDatabase(path);
  try {
    return pendingMigrations(db, migrations);
  } finally {
    db.$client.close();
  }
}

/** The migrations run here before they are appended: a record that cannot be applied would stop every member. */
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
    // Closing rolls back an open transaction.
    connection.close();
  }
}

/** Throws PositionTaken when the log contains a newer record. */
async function beginTerm(path: string, log: Pick<CommitLog, "append">, term: number): Promise<void> {
  const connection = new RecordingConnection(path);
  try {
    const at = logPosition(connection);
    if (at === null) throw new ReplicaDiverged(`${path} belongs to no commit log`);
    connection.begin();
    connection.prepare("UPDATE log_position SET position = ?, term = ? WHERE id = 1").run(at.position + 1, term);
    await log.append(at.position + 1, { kind: "changes", changes: connection.changes() });
    connection.commit();
  } finally {
    connection.rollback();
    connection.close();
  }
}
