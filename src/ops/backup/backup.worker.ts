/** Entry point of the thread that makes scheduled backups and checks the database, because both block their thread. */

import { sqliteCode } from "../../kernel/db/health.ts";
import { messageOf } from "../../kernel/error-message.ts";
import { checkDatabase } from "./check-database.ts";
import { type BackupOptions, type BackupReport, copyDatabase, makeBackup } from "./make-backup.ts";

declare const self: Worker;

/** A whole backup, a copy of the database alone, or a check of all its pages. */
export type BackupRequest = BackupOptions | { source: string; copy: string } | { check: string };
/** `damage` is the result of a check, `code` SQLite's name for the problem. */
export type BackupResponse =
  | { report: BackupReport | null; damage: string | null }
  | { problem: string; code: string | null };

async function work(request: Exclude<BackupRequest, { check: string }>): Promise<BackupReport | null> {
  if ("dataDir" in request) return makeBackup(request);
  copyDatabase(request.source, request.copy);
  return null;
}

self.onmessage = async ({ data }: MessageEvent<BackupRequest>) => {
  try {
    const damage = "check" in data ? await checkDatabase(data.check) : null;
    const report = "check" in data ? null : await work(data);
    self.postMessage({ report, damage } satisfies BackupResponse);
  } catch (error) {
    const problem = messageOf(error);
    self.postMessage({ problem, code: sqliteCode(error) } satisfies BackupResponse);
  }
};
