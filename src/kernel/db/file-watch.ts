/** Detects whether another program has deleted, replaced or truncated the files of the open database. */
import { closeSync, fstatSync, openSync, readSync, statSync } from "node:fs";
import { basename } from "node:path";
import type { Log } from "../log.ts";
import { every, type Timers } from "../time/timers.ts";
import type { Db } from "./open.ts";
import { refuseWrites } from "./split-client.ts";
import { frameBytesOf, hasSaltsOf, isWalHeader, WAL_HEADER_BYTES } from "./wal-format.ts";

const CHECK_EVERY_MS = 2_000;

type FileWatchOptions = {
  db: Db;
  log: Log;
  timers: Timers;
  /** What to do about a damaged database. */
  advice: () => string;
};

/**
 * A file without a name exists only through the open descriptors: what is written to it is lost when the process ends, and another
 * process would create a new file. In that case the log is copied into the database. A truncated log has lost commits, and copying
 * the rest of it would mix pages of different ages. In both cases nothing more is acknowledged.
 */
export function watchFiles({ db, log, timers, advice }: FileWatchOptions): {
  problem(): string | null;
  /** Checks now instead of at the next interval. */
  check(): void;
  stop(): void;
} {
  const { filename } = db.$client;
  if (filename === "" || filename === ":memory:") return { problem: () => null, check: () => {}, stop: () => {} };
  const paths = [filename, `${filename}-wal`, `${filename}-shm`];
  /** Filled as the files appear: until the database is read for the first time, it has no log. */
  const inodes = new Map<string, number>();
  const isLogWhole = watchLog(db.$client);
  let problem: string | null = null;

  /** Whether the path names another file than before, or none. */
  function isLost(path: string): boolean {
    const inode = statSync(path, { throwIfNoEntry: false })?.ino;
    const known = inodes.get(path) ?? inode;
    if (known !== undefined) inodes.set(path, known);
    return inode !== known;
  }

  function remedyFor(path: string): string {
    return path === filename
      ? `save the deleted file from /proc/${process.pid}/fd before you stop the server`
      : "restart the server, and let nothing else change its files";
  }

  function check(): void {
    if (problem !== null) return;
    const lost = paths.find(isLost);
    if (lost !== undefined) {
      problem = `${lost} was deleted or replaced, so that nothing more is written: ${remedyFor(lost)}`;
      log.error({ path: lost }, "database: file was deleted or replaced, writes are refused");
      if (!lost.endsWith("-shm")) db.$client.run("PRAGMA wal_checkpoint(PASSIVE)");
    } else if (!isLogWhole()) {
      problem = `${basename(filename)}-wal was truncated, so that commits are lost and nothing more is written: ${advice()}`;
      log.error({ path: `${filename}-wal` }, "database: log was truncated, writes are refused");
    } else {
      return;
    }
    refuseWrites(db.$client);
  }

  for (const path of paths) isLost(path);
  const stop = every({ log, timers }, CHECK_EVERY_MS, check);
  return { stop, check, problem: () => problem };
}

/**
 * Compares the log with the number of committed frames that the connection knows. Every frame has the salts of the log's header; if
 * the log is truncated and a commit is then appended, a hole without salts is left. The index in `-shm` must not be read instead,
 * because closing that file would release SQLite's locks on it.
 */
function watchLog(client: Db["$client"]): () => boolean {
  // SQLite before 3.51, which the system's library may be, would treat this query as a checkpoint.
  const version = client.query("SELECT sqlite_version() AS version").get() as { version: string };
  if (Bun.semver.order(version.version, "3.51.0") < 0) return () => true;
  const count = client.query("PRAGMA wal_checkpoint(NOOP)");
  let known: { header: Buffer; frames: number; last: Buffer } | null = null;

  function isWhole(): boolean {
    const frames = (count.get() as { log: number }).log;
    if (frames <= 0) return true;
    const file = openSync(`${client.filename}-wal`, "r");
    try {
      const read = (position: number, length: number) => {
        const bytes = Buffer.alloc(length);
        return bytes.subarray(0, readSync(file, bytes, 0, length, position));
      };
      const header = read(0, WAL_HEADER_BYTES);
      if (!isWalHeader(header)) return false;
      const frameBytes = frameBytesOf(header);
      if (fstatSync(file).size < WAL_HEADER_BYTES + frames * frameBytes) return false;
      const frame = (number: number) => read(WAL_HEADER_BYTES + (number - 1) * frameBytes, frameBytes);
      const last = frame(frames);
      if (!hasSaltsOf(header, last)) return false;
      // While the header is the same, the log is only appended to, so the last frame of the previous check is still in it.
      if (known?.header.equals(header) && !frame(known.frames).equals(known.last)) return false;
      known = { header, frames, last };
      return true;
    } finally {
      closeSync(file);
    }
  }

  // Another process may restart the log in the middle of a check, so a failed check is repeated.
  return () => isWhole() || isWhole();
}
