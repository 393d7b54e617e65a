import { mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { removeGradually } from "../kernel/archive/remove-gradually.ts";
import { openDatabase } from "../kernel/db/open.ts";
import { sameSecret } from "../kernel/secrets.ts";
import { copyDatabaseInThread } from "../ops/backup/backup-thread.ts";

export const SNAPSHOT_PATH = "/v1/cluster/snapshot";

/** A large database over a slow line; an attempt that takes longer is begun anew. */
const WITHIN_MS = 3_600_000;

export function isMember(request: Request, credential: string): boolean {
  const given = /^Bearer (.+)$/i.exec(request.headers.get("authorization") ?? "")?.[1] ?? "";
  return sameSecret(given, credential);
}

/** The database as it is now, for a member that has none. The copy is gone when it was read, or was not. */
export async function snapshotResponse(path: string, signal: AbortSignal): Promise<Response> {
  const copy = `${path}.snapshot-${crypto.randomUUID()}`;
  try {
    await copyDatabaseInThread(path, copy, signal);
  } catch (error) {
    await removeGradually(copy);
    throw error;
  }
  const file = Bun.file(copy);
  const gone = () => void removeGradually(copy).catch(() => {});
  const counted = file.stream().pipeThrough(new TransformStream({ flush: gone, cancel: gone } as Transformer));
  return new Response(counted, {
    headers: { "content-type": "application/vnd.sqlite3", "content-length": String(file.size) },
  });
}

/** Puts the snapshot of a member in place of the local database, which is kept beside it under another name. */
export async function takeSnapshot(
  from: string,
  { path, credential, now }: { path: string; credential: string; now: number },
): Promise<void> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const arriving = `${path}.arriving`;
  rmSync(arriving, { force: true });
  const response = await fetch(`${from}${SNAPSHOT_PATH}`, {
    headers: { authorization: `Bearer ${credential}` },
    signal: AbortSignal.timeout(WITHIN_MS),
    keepalive: false,
  });
  if (!response.ok) throw new Error(`${from} answers ${response.status} for a snapshot`);
  await Bun.write(arriving, response);
  // What was cut off on the way is not a database.
  const db = openDatabase(arriving);
  const whole = db.$client.query<{ quick_check: string }, []>("PRAGMA quick_check(1)").get()?.quick_check === "ok";
  db.$client.close();
  if (!whole) throw new Error(`the snapshot of ${from} is damaged`);
  setAside(path, now);
  for (const ending of ["-wal", "-shm"]) rmSync(`${arriving}${ending}`, { force: true });
  renameSync(arriving, path);
}

/** Never thrown away: it may hold what nobody else has. */
function setAside(path: string, now: number): void {
  const aside = join(dirname(path), `before-snapshot-${now}.db`);
  for (const ending of ["", "-wal", "-shm"]) {
    try {
      renameSync(`${path}${ending}`, `${aside}${ending}`);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}
