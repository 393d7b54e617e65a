import { existsSync, readdirSync } from "node:fs";
import { mkdir, readdir, stat } from "node:fs/promises";
import { join } from "node:path";
import { removeGradually } from "../../kernel/archive/remove-gradually.ts";
import type { Config } from "../../kernel/config/index.ts";
import type { DatabaseHealth } from "../../kernel/db/health.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { VERSION } from "../../kernel/version.ts";
import { makeBackupInThread } from "./backup-thread.ts";
import type { BackupOptions, BackupReport } from "./make-backup.ts";

const NAME = /^stoa-(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)Z\.tar$/;
const PARTIAL = /^stoa-.*\.tar\.partial(\.db)?$/;
const HOUR_MS = 3_600_000;

type BackupDeps = {
  make?: (options: BackupOptions, signal: AbortSignal) => Promise<BackupReport>;
  database?: Pick<DatabaseHealth, "report">;
};

/**
 * Makes scheduled backups. The time of the last one is read from the names of the files, so that a restart neither
 * skips a backup nor makes an extra one. A failed backup is retried after an hour.
 */
export function backupSchedule(
  { config, log, metrics }: Runtime,
  { make = makeBackupInThread, database }: BackupDeps = {},
) {
  const { BACKUP_DIR: folder, BACKUP_EVERY_HOURS: everyHours, BACKUP_KEEP: keep, DATA_DIR: dataDir } = config;
  if (folder === undefined) return { runDue: async () => {}, giveUp: () => {} };
  const stopping = new AbortController();
  let failedAt = Number.NEGATIVE_INFINITY;
  let lastMadeAt: number | null = null;
  let succeeded: boolean | null = null;
  let lastBytes: number | null = null;
  metrics.gaugeOf("stoa_backup_interval_seconds", "BACKUP_EVERY_HOURS in seconds.", () => everyHours * 3_600);
  metrics.gaugeOf("stoa_last_backup_success", "1 when the last backup was made, 0 when it failed.", () =>
    succeeded === null ? null : Number(succeeded),
  );
  metrics.gaugeOf("stoa_last_backup_bytes", "The size of the last backup.", () => lastBytes);
  metrics.gaugeOf("stoa_last_backup_timestamp_seconds", "When the newest backup in BACKUP_DIR was made", () =>
    lastMadeAt === null ? null : lastMadeAt / 1000,
  );

  async function backUp(now: number): Promise<void> {
    const file = join(folder ?? "", backupName(now));
    const { bytes, attachments, removedMeanwhile, elsewhere } = await make(
      { dataDir, file, now, version: VERSION },
      stopping.signal,
    );
    lastMadeAt = now;
    lastBytes = bytes;
    log.info({ file, bytes, attachments, removedMeanwhile, elsewhere }, "backup: backup made");
  }

  return {
    giveUp: () => stopping.abort(),

    /** Makes a backup when it is due, and removes the oldest beyond BACKUP_KEEP. */
    async runDue(now: number): Promise<void> {
      try {
        await makeDue(now);
      } catch (error) {
        if (!stopping.signal.aborted) succeeded = false;
        // The copy reads every table, so it may be the first to meet a damaged page.
        database?.report(error);
        throw error;
      }
    },
  };

  async function makeDue(now: number): Promise<void> {
    if (folder === undefined) return;
    await mkdir(folder, { recursive: true, mode: 0o700 });
    const names = await readdir(folder);
    const made = names.flatMap((name) => backupTime(name) ?? []).sort((a, b) => b - a);
    lastMadeAt = made[0] ?? null;
    lastBytes ??= lastMadeAt === null ? null : (await stat(join(folder, backupName(lastMadeAt)))).size;
    if (lastMadeAt !== null && now - lastMadeAt < everyHours * HOUR_MS) return;
    if (now - failedAt < HOUR_MS) return;
    for (const name of names) if (PARTIAL.test(name)) await removeGradually(join(folder, name));
    failedAt = now;
    await backUp(now);
    failedAt = Number.NEGATIVE_INFINITY;
    succeeded = true;
    for (const at of [now, ...made].slice(keep)) await removeGradually(join(folder, backupName(at)));
  }
}

/** The newest backup in BACKUP_DIR; null without any. */
export function latestBackup({ BACKUP_DIR: folder }: Pick<Config, "BACKUP_DIR">): string | null {
  if (folder === undefined || !existsSync(folder)) return null;
  const newest = readdirSync(folder)
    .filter((name) => backupTime(name) !== null)
    .sort()
    .at(-1);
  return newest === undefined ? null : join(folder, newest);
}

/** Names sort by time and contain no character that a file system forbids. */
export function backupName(at: number): string {
  return `stoa-${new Date(at).toISOString().slice(0, 19).replaceAll(":", "-")}Z.tar`;
}

/** Null for other files, which are never removed. */
export function backupTime(name: string): number | null {
  const parts = NAME.exec(name);
  return parts ? Date.parse(`${parts[1]}T${parts[2]}:${parts[3]}:${parts[4]}Z`) : null;
}
