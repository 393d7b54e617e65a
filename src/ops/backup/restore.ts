import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { renewChatEpoch } from "../../features/chat/event-log.ts";
import { BackupRefused, DATABASE, type Description } from "../../kernel/data-directory/data-contents.ts";
import { beginExchange, finishExchange } from "../../kernel/data-directory/data-exchange.ts";
import { voidTokensBefore } from "../../kernel/data-directory/installation.ts";
import { leaveLog } from "../../kernel/db/log-position.ts";
import { MigrationRefused, pendingMigrations, readMigrations } from "../../kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../../kernel/db/open.ts";
import { createWriter } from "../../kernel/db/writer.ts";
import { giveToOwnerOf } from "../../kernel/durable-file.ts";
import { unpackBackup } from "./unpack.ts";

type RestoreOptions = {
  file: string;
  dataDir: string;
  migrationsDir: string;
  now: number;
  /** Keeps tokens of end users valid that were minted before now, including those that were revoked after the backup. */
  keepTokens?: boolean;
  /** Changes the restored data in this folder before it replaces the current data. */
  prepare?: (folder: string, backup: Description) => Promise<void>;
};

type RestoreReport = Description & {
  /** The folder of the replaced data; null when there was none. */
  setAside: string | null;
};

/** Reads the whole backup and opens its database in a temporary folder. */
export async function verifyBackup(options: RestoreOptions): Promise<Description> {
  const folder = join(options.dataDir, folderName("verifying", options.now));
  const description = await unpackVerified(options, folder);
  await rm(folder, { recursive: true });
  return description;
}

/** Replaces the data with that of the backup, which is verified first. No process may be using the data. */
export async function restoreBackup(options: RestoreOptions): Promise<RestoreReport> {
  const { dataDir, now } = options;
  finishExchange(dataDir);
  const [from, aside] = [folderName("restoring", now), folderName("before-restore", now)];
  const description = await unpackVerified(options, join(dataDir, from));
  try {
    await options.prepare?.(join(dataDir, from), description);
    giveToOwnerOf(dataDir)(join(dataDir, from));
  } catch (error) {
    await rm(join(dataDir, from), { recursive: true, force: true });
    throw error;
  }
  beginExchange(dataDir, from, aside);
  const kept = join(dataDir, aside);
  // Files without a database, or only a secret, are kept too.
  const hadData = (await readdir(kept)).length > 0;
  if (!hadData) await rm(kept, { recursive: true });
  return { ...description, setAside: hadData ? kept : null };
}

async function unpackVerified(options: RestoreOptions, folder: string): Promise<Description> {
  await mkdir(folder, { recursive: true, mode: 0o700 });
  try {
    const description = await unpackBackup(options.file, folder);
    await prepareDatabase(options, join(folder, DATABASE));
    giveToOwnerOf(options.dataDir)(folder);
    return description;
  } catch (error) {
    await rm(folder, { recursive: true, force: true });
    throw error;
  }
}

async function prepareDatabase({ file, migrationsDir, now, keepTokens }: RestoreOptions, path: string): Promise<void> {
  const db = openDatabase(path);
  try {
    const problem = db.$client.query<{ integrity_check: string }, []>("PRAGMA integrity_check(1)").get();
    if (problem?.integrity_check !== "ok") throw new BackupRefused(`the database in ${file} is damaged.`);
    pendingMigrations(db, readMigrations(migrationsDir));
    await createWriter(db.$client, () => {}).write((unit) => {
      // Clients that saw events after the backup was made must not confuse them with new events of the same `seq`.
      renewChatEpoch(unit, db);
      if (!keepTokens) voidTokensBefore(unit, db, now);
      // Commits that a cluster made after the backup must not be applied to it.
      leaveLog(unit, db);
    });
  } catch (error) {
    throw error instanceof MigrationRefused ? new BackupRefused(error.message) : error;
  } finally {
    closeDatabase(db);
  }
}

function folderName(prefix: string, now: number): string {
  return `${prefix}-${new Date(now).toISOString().replaceAll(":", "-").slice(0, 19)}Z`;
}
