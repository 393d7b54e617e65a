import { workerUrl } from "../../kernel/assets.ts";
import type { BackupAnswer, BackupRequest } from "./backup.worker.ts";
import type { BackupOptions, BackupReport } from "./make-backup.ts";

/** Makes a backup in a thread of its own, which an abort ends at once; what it has written so far is left behind. */
export async function makeBackupInThread(options: BackupOptions, signal: AbortSignal): Promise<BackupReport> {
  const report = await inThread(options, signal);
  if (report === null) throw new Error("the backup has no report");
  return report;
}

/** The database as it is at one moment, while others write to it. */
export async function copyDatabaseInThread(source: string, copy: string, signal: AbortSignal): Promise<void> {
  await inThread({ source, copy }, signal);
}

async function inThread(request: BackupRequest, signal: AbortSignal): Promise<BackupReport | null> {
  const worker = new Worker(workerUrl("ops/backup/backup.worker.ts"));
  const { promise, resolve, reject } = Promise.withResolvers<BackupReport | null>();
  worker.onmessage = ({ data }: MessageEvent<BackupAnswer>) => {
    if ("report" in data) resolve(data.report);
    else reject(new Error(data.problem));
  };
  worker.onerror = ({ message }) => reject(new Error(message));
  signal.addEventListener("abort", () => reject(new Error("the server stops; the backup is made another time")));
  worker.postMessage(request);
  try {
    return await promise;
  } finally {
    worker.terminate();
  }
}
