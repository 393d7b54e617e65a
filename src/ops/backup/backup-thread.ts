import { startWorker } from "../../kernel/net/descriptors.ts";
import type { BackupRequest, BackupResponse } from "./backup.worker.ts";
import type { BackupOptions, BackupReport } from "./make-backup.ts";

/** Makes a backup in a thread, which an abort ends at once; the partial file remains. */
export async function makeBackupInThread(options: BackupOptions, signal: AbortSignal): Promise<BackupReport> {
  const { report } = await inThread(options, signal);
  if (report === null) throw new Error("the backup returned no report");
  return report;
}

/** Copies a consistent state of the database while the server writes to it. */
export async function copyDatabaseInThread(source: string, copy: string, signal: AbortSignal): Promise<void> {
  await inThread({ source, copy }, signal);
}

/** Returns a description of the damage of the database, or null. */
export async function checkDatabaseInThread(path: string, signal: AbortSignal): Promise<string | null> {
  return (await inThread({ check: path }, signal)).damage;
}

type Done = Exclude<BackupResponse, { problem: string }>;

async function inThread(request: BackupRequest, signal: AbortSignal): Promise<Done> {
  const worker = startWorker("ops/backup/backup.worker.ts");
  const { promise, resolve, reject } = Promise.withResolvers<Done>();
  worker.onmessage = ({ data }: MessageEvent<BackupResponse>) => {
    if ("report" in data) resolve(data);
    else reject(Object.assign(new Error(data.problem), { code: data.code }));
  };
  worker.onerror = ({ message }) => reject(new Error(message));
  signal.addEventListener("abort", () => reject(new Error("the server is stopping; this is done later")));
  worker.postMessage(request);
  try {
    return await promise;
  } finally {
    worker.terminate();
  }
}
