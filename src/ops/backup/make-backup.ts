import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ArchiveWriter, partialOf, type WrittenArchive } from "../../kernel/archive/archive-writer.ts";
import { removeGradually } from "../../kernel/archive/remove-gradually.ts";
import { iso } from "../../kernel/time/clock.ts";
import {
  BackupRefused,
  DATABASE,
  DESCRIPTION,
  type Description,
  FORMAT,
  objectName,
  SECRETS,
} from "../../kernel/data-directory/data-contents.ts";

export type BackupOptions = { dataDir: string; file: string; now: number; version: string };

export type BackupReport = WrittenArchive & {
  file: string;
  attachments: number;
  /** Removed between the copy of the database and that of the files: their messages were, too. */
  removedMeanwhile: number;
  /** Kept in a bucket, which has to be backed up on its own. */
  elsewhere: number;
};

/**
 * The database as it is at one moment, the files it names, and the secrets it needs, in one file. Safe beside a running
 * server: the copy reads an old state of the database while the server goes on writing newer ones.
 */
export async function makeBackup({ dataDir, file, now, version }: BackupOptions): Promise<BackupReport> {
  const source = join(dataDir, DATABASE);
  if (!existsSync(source)) throw new BackupRefused(`there is no database in ${dataDir}`);
  const copy = `${partialOf(file)}.db`;
  await removeGradually(copy);
  const archive = await ArchiveWriter.create(file, now);
  try {
    copyDatabase(source, copy);
    const { migrations, objectKeys, elsewhere } = look(copy);
    const description: Description = { format: FORMAT, version, createdAt: iso(now), migrations };
    await archive.addText(DESCRIPTION, `${JSON.stringify(description, null, 2)}\n`);
    await archive.addFile(DATABASE, copy);
    for (const name of SECRETS) await archive.addFile(name, join(dataDir, name));
    let attachments = 0;
    for (const key of objectKeys) {
      const name = objectName(key);
      // A file that has just arrived may not have moved to its place yet.
      const found =
        (await archive.addFile(name, join(dataDir, name))) ||
        (await archive.addFile(name, join(dataDir, "attachments/incoming", key))) ||
        (await archive.addFile(name, join(dataDir, name)));
      if (found) attachments++;
    }
    const written = await archive.finish();
    return { ...written, file, attachments, removedMeanwhile: objectKeys.length - attachments, elsewhere };
  } catch (error) {
    await archive.abandon().catch(() => {});
    throw error;
  } finally {
    await removeGradually(copy);
  }
}

/**
 * The copy is read from the page cache and then removed, so it is never flushed: one flush of its whole size would make
 * every commit of the server wait behind it.
 */
export function copyDatabase(source: string, copy: string): void {
  const client = new Database(source, { readwrite: true, create: false });
  try {
    client.run("PRAGMA busy_timeout = 5000");
    client.run("PRAGMA synchronous = OFF");
    client.run("VACUUM INTO ?", [copy]);
  } finally {
    try {
      // Whoever closes a database last writes its log into it, and that has to be on disk.
      client.run("PRAGMA synchronous = FULL");
    } finally {
      client.close();
    }
  }
}

/** Asks the copy, not the database that has gone on meanwhile. */
function look(copy: string): { migrations: string[]; objectKeys: string[]; elsewhere: number } {
  const client = new Database(copy, { readonly: true });
  try {
    const rows = client.query<{ location: string; objectKey: string }, []>(
      "SELECT location, object_key AS objectKey FROM attachments WHERE object_key IS NOT NULL",
    );
    const objects = Map.groupBy(rows.all(), ({ location }) => (location === "disk" ? "here" : "elsewhere"));
    const migrations = client.query<{ name: string }, []>("SELECT name FROM schema_migrations ORDER BY name").all();
    return {
      migrations: migrations.map(({ name }) => name),
      objectKeys: (objects.get("here") ?? []).map(({ objectKey }) => objectKey),
      elsewhere: objects.get("elsewhere")?.length ?? 0,
    };
  } finally {
    client.close();
  }
}
