import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { removeGradually } from "../../kernel/archive/remove-gradually.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { VERSION } from "../../kernel/version.ts";
import { makeBackupInThread } from "./backup-thread.ts";
import type { BackupOptions, BackupReport } from "./make-backup.ts";

const NAME = /^stoa-(\d{4}-\d\d-\d\d)T(\d\d)-(\d\d)-(\d\d)Z\.tar$/;
const LEFTOVER = /^stoa-.*\.tar\.partial(\.db)?$/;
const HOUR_MS = 3_600_000;

export type BackupSchedule = {
  /** Makes a backup when one is due, and removes those that are too many. */
  runDue(now: number): Promise<void>;
  giveUp(): void;
};

/**
 * Backups on a schedule. When the last one was made is read off the files themselves, so that a restart neither skips
 * one nor makes one too many; a failed one is tried again within the hour.
 */
export function backupSchedule(
  { config, log, metrics }: Runtime,
  make: (options: BackupOptions, signal: AbortSignal) => Promise<BackupReport> = makeBackupInThread,
): BackupSchedule {
  const { BACKUP_DIR: folder, BACKUP_EVERY_HOURS: everyHours, BACKUP_KEEP: keep, DATA_DIR: dataDir } = config;
  if (folder === undefined) return { runDue: async () => {}, giveUp: () => {} };
  const stopping = new AbortController();
  let failedAt = Number.NEGATIVE_INFINITY;
  let lastMadeAt: number | null = null;
  metrics.gaugeOf("stoa_last_backup_timestamp_seconds", "When the newest backup in BACKUP_DIR was made", () =>
    lastMadeAt === null ? null : lastMadeAt / 1000,
  );

  async function back(now: number): Promise<void> {
    const file = join(folder ?? "", backupName(now));
    const { bytes, attachments, removedMeanwhile, elsewhere } = await make(
      { dataDir, file, now, version: VERSION },
      stopping.signal,
    );
    lastMadeAt = now;
    log.info({ file, bytes, attachments, removedMeanwhile, elsewhere }, "backup made");
  }

  return {
    giveUp: () => stopping.abort(),

    async runDue(now) {
      await mkdir(folder, { recursive: true, mode: 0o700 });
      const names = await readdir(folder);
      const made = names.flatMap((name) => backupTime(name) ?? []).sort((a, b) => b - a);
      lastMadeAt = made[0] ?? null;
      if (lastMadeAt !== null && now - lastMadeAt < everyHours * HOUR_MS) return;
      if (now - failedAt < HOUR_MS) return;
      for (const name of names) if (LEFTOVER.test(name)) await removeGradually(join(folder, name));
      failedAt = now;
      await back(now);
      failedAt = Number.NEGATIVE_INFINITY;
      for (const at of [now, ...made].slice(keep)) await removeGradually(join(folder, backupName(at)));
    },
  };
}

/** Sorted by name they are sorted by time, and no file system minds the letters. */
export function backupName(at: number): string {
  return `stoa-${new Date(at).toISOString().slice(0, 19).replaceAll(":", "-")}Z.tar`;
}

/** Null for files of other names: they are nobody's to remove. */
export function backupTime(name: string): number | null {
  const parts = NAME.exec(name);
  return parts ? Date.parse(`${parts[1]}T${parts[2]}:${parts[3]}:${parts[4]}Z`) : null;
}
