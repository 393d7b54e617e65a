import { workerUrl } from "../kernel/assets.ts";
import type { BackupAnswer } from "./backup.worker.ts";
import type { BackupOptions, BackupReport } from "./make-backup.ts";

/** Makes a backup in a thread of its own, which an abort ends at once; what it has written so far is left behind. */
export async function makeBackupInThread(options: BackupOptions, signal: AbortSignal): Promise<BackupReport> {
  const worker = new Worker(workerUrl("backup/backup.worker.ts"));
  const { promise, resolve, reject } = Promise.withResolvers<BackupReport>();
  worker.onmessage = ({ data }: MessageEvent<BackupAnswer>) => {
    if ("report" in data) resolve(data.report);
    else reject(new Error(data.problem));
  };
  worker.onerror = ({ message }) => reject(new Error(message));
  signal.addEventListener("abort", () => reject(new Error("the server stops; the backup is made another time")));
  worker.postMessage(options);
  try {
    return await promise;
  } finally {
    worker.terminate();
  }
}
