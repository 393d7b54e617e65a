/** Entry point of the thread that makes a scheduled backup: copying a database keeps its thread busy for its whole size. */
import { type BackupOptions, type BackupReport, copyDatabase, makeBackup } from "./make-backup.ts";

declare const self: Worker;

/** A whole backup, or a copy of the database alone. */
export type BackupRequest = BackupOptions | { source: string; copy: string };
export type BackupAnswer = { report: BackupReport | null } | { problem: string };

async function work(request: BackupRequest): Promise<BackupReport | null> {
  if ("dataDir" in request) return makeBackup(request);
  copyDatabase(request.source, request.copy);
  return null;
}

self.onmessage = async ({ data }: MessageEvent<BackupRequest>) => {
  const answer: BackupAnswer = await work(data).then(
    (report) => ({ report }),
    (error: unknown) => ({ problem: error instanceof Error ? error.message : String(error) }),
  );
  self.postMessage(answer);
};
