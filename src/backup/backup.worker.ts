/** Entry point of the thread that makes a scheduled backup: copying a database keeps its thread busy for its whole size. */
import { type BackupOptions, type BackupReport, makeBackup } from "./make-backup.ts";

declare const self: Worker;

export type BackupAnswer = { report: BackupReport } | { problem: string };

self.onmessage = async ({ data }: MessageEvent<BackupOptions>) => {
  const answer: BackupAnswer = await makeBackup(data).then(
    (report) => ({ report }),
    (error: unknown) => ({ problem: error instanceof Error ? error.message : String(error) }),
  );
  self.postMessage(answer);
};
