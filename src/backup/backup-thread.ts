import type { BackupAnswer } from "./backup.worker.ts";
import type { BackupOptions, BackupReport } from "./make-backup.ts";

/** Makes a backup in a thread of its own, which an abort ends at once; what it has written so far is left behind. */
export async function makeBackupInThread(options: BackupOptions, signal: AbortSignal): Promise<BackupReport> {
  const worker = new Worker(workerUrl());
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

/** In the compiled binary every module lives in the entry point at the root; the worker keeps its place below it. */
function workerUrl(): URL {
  return new URL(Bun.isStandaloneExecutable ? "./backup/backup.worker.js" : "./backup.worker.ts", import.meta.url);
}
