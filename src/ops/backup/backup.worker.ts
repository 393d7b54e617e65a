/** Entry point of the thread that makes a scheduled backup, because copying a database blocks its thread. */
import { type BackupOptions, type BackupReport, copyDatabase, makeBackup } from "./make-backup.ts";

declare const self: Worker;

/** A whole backup, or a copy of the database alone. */
export type BackupRequest = BackupOptions | { source: string; copy: string };
export type BackupResponse = { report: BackupReport | null } | { problem: string };

async function work(request: BackupRequest): Promise<BackupReport | null> {
  if ("dataDir" in request) return makeBackup(request);
  copyDatabase(request.source, request.copy);
  return null;
}

self.onmessage = async ({ data }: MessageEvent<BackupRequest>) => {
  const response: BackupResponse = await work(data).then(
    (report) => ({ report }),
    (error: unknown) => ({ problem: error instanceof Error ? error.message : String(error) }),
  );
  self.postMessage(response);
};
