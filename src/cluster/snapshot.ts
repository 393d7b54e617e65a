import { mkdirSync, renameSync, rmSync } from "node:fs";
import { dirname, join } from "node:path";
import { removeGradually } from "../kernel/archive/remove-gradually.ts";
import { openDatabase } from "../kernel/db/open.ts";
import { copyDatabaseInThread } from "../ops/backup/backup-thread.ts";
import type { MemberAuthentication } from "./member-authentication.ts";

export const SNAPSHOT_PATH = "/v1/cluster/snapshot";

/** Long enough for a large database over a slow network. */
const DOWNLOAD_TIMEOUT_MS = 3_600_000;

/** A copy of the database for a member that has none; it is removed when the response ends or is cancelled. */
export async function serveSnapshot(path: string, signal: AbortSignal): Promise<Response> {
  const copy = `${path}.snapshot-${crypto.randomUUID()}`;
  try {
    await copyDatabaseInThread(path, copy, signal);
  } catch (error) {
    await removeGradually(copy);
    throw error;
  }
  const file = Bun.file(copy);
  const remove = () => void removeGradually(copy).catch(() => {});
  const body = file.stream().pipeThrough(new TransformStream({ flush: remove, cancel: remove } as Transformer));
  return new Response(body, {
    headers: { "content-type": "application/vnd.sqlite3", "content-length": String(file.size) },
  });
}

/** Replaces the local database with a member's snapshot and renames the old one. */
export async function installSnapshot(
  from: string,
  { path, authentication, now }: { path: string; authentication: MemberAuthentication; now: number },
): Promise<void> {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  const arriving = `${path}.arriving`;
  rmSync(arriving, { force: true });
  const signal = AbortSignal.timeout(DOWNLOAD_TIMEOUT_MS);
  const response = await authentication.fetch(from, SNAPSHOT_PATH, { signal });
  if (!response.ok) throw new Error(`${from} answers ${response.status} for a snapshot`);
  await Bun.write(arriving, response);
  // A truncated download is not a valid database.
  const db = openDatabase(arriving);
  const isValid = db.$client.query<{ quick_check: string }, []>("PRAGMA quick_check(1)").get()?.quick_check === "ok";
  db.$client.close();
  if (!isValid) throw new Error(`the snapshot of ${from} is damaged`);
  setAside(path, now);
  for (const suffix of ["-wal", "-shm"]) rmSync(`${arriving}${suffix}`, { force: true });
  renameSync(arriving, path);
}

/** The old database is never deleted: it may contain records that no other member has. */
function setAside(path: string, now: number): void {
  const aside = join(dirname(path), `before-snapshot-${now}.db`);
  for (const suffix of ["", "-wal", "-shm"]) {
    try {
      renameSync(`${path}${suffix}`, `${aside}${suffix}`);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
    }
  }
}
