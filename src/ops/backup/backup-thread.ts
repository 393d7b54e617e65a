import { startWorker } from "../../kernel/net/descriptors.ts";
import type { BackupRequest, BackupResponse } from "./backup.worker.ts";
import type { BackupOptions, BackupReport } from "./make-backup.ts";

/** Makes a backup in a thread, which an abort ends at once; the partial file is left behind. */
export async function makeBackupInThread(options: BackupOptions, signal: AbortSignal): Promise<BackupReport> {
  const report = await inThread(options, signal);
  if (report === null) throw new Error("the backup returned no report");
  return report;
}

/** Copies a consistent state of the database while the server writes to it. */
export async function copyDatabaseInThread(source: string, copy: string, signal: AbortSignal): Promise<void> {
  await inThread({ source, copy }, signal);
}

async function inThread(request: BackupRequest, signal: AbortSignal): Promise<BackupReport | null> {
  const worker = startWorker("ops/backup/backup.worker.ts");
  const { promise, resolve, reject } = Promise.withResolvers<BackupReport | null>();
  worker.onmessage = ({ data }: MessageEvent<BackupResponse>) => {
    if ("report" in data) resolve(data.report);
    else reject(new Error(data.problem));
  };
  worker.onerror = ({ message }) => reject(new Error(message));
  signal.addEventListener("abort", () => reject(new Error("the server is stopping; the backup is made later")));
  worker.postMessage(request);
  try {
    return await promise;
  } finally {
    worker.terminate();
  }
}
