import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { ArchiveWriter, partialOf, type WrittenArchive } from "../../kernel/archive/archive-writer.ts";
import { removeGradually } from "../../kernel/archive/remove-gradually.ts";
import {
  BackupRefused,
  DATABASE,
  DESCRIPTION,
  type Description,
  FORMAT,
  objectName,
  SECRETS,
} from "../../kernel/data-directory/data-contents.ts";
import { addChecksumLayer, withdrawChecksums } from "../../kernel/db/checksums.ts";
import { iso } from "../../kernel/time/clock.ts";

export type BackupOptions = { dataDir: string; file: string; now: number; version: string };

export type BackupReport = WrittenArchive & {
  file: string;
  attachments: number;
  /** Attachments that were removed with their messages after the database was copied. */
  removedMeanwhile: number;
  /** Attachments in a bucket, which needs its own backup. */
  elsewhere: number;
};

/**
 * Writes a consistent state of the database, its files and its secrets into one file. This is safe while a server is
 * running: the copy reads one state of the database while the server writes newer ones.
 */
export async function makeBackup({ dataDir, file, now, version }: BackupOptions): Promise<BackupReport> {
  const source = join(dataDir, DATABASE);
  if (!existsSync(source)) throw new BackupRefused(`there is no database in ${dataDir}`);
  const copy = `${partialOf(file)}.db`;
  await removeGradually(copy);
  const archive = await ArchiveWriter.create(file, now);
  try {
    copyDatabase(source, copy);
    const { migrations, objectKeys, elsewhere } = readContents(copy);
    const description: Description = { format: FORMAT, version, createdAt: iso(now), migrations };
    await archive.addText(DESCRIPTION, `${JSON.stringify(description, null, 2)}\n`);
    await archive.addFile(DATABASE, copy);
    for (const name of SECRETS) await archive.addFile(name, join(dataDir, name));
    let attachments = 0;
    for (const key of objectKeys) {
      const name = objectName(key);
      // A file that was just uploaded may still be in the folder of incoming files.
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
 * The copy is not flushed, because it is read from the page cache and then removed. A flush of its whole size would delay
 * every commit of the server.
 */
export function copyDatabase(source: string, copy: string): void {
  addChecksumLayer();
  const client = new Database(source, { readwrite: true, create: false });
  try {
    client.run("PRAGMA busy_timeout = 5000");
    // When the last connection closes, SQLite writes the write-ahead log into the database.
    withdrawChecksums(client);
    client.run("PRAGMA synchronous = OFF");
    client.run("VACUUM INTO ?", [copy]);
  } finally {
    try {
      // When the last connection closes, SQLite writes the write-ahead log into the database, and that has to be on disk.
      client.run("PRAGMA synchronous = FULL");
    } finally {
      client.close();
    }
  }
}

/** The copy is read, because the database has changed in the meantime. */
function readContents(copy: string): { migrations: string[]; objectKeys: string[]; elsewhere: number } {
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
