import { closeSync, fsyncSync, openSync, statfsSync, unlinkSync, writeSync } from "node:fs";
import { join } from "node:path";
import type { Now } from "../clock.ts";

export function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

const PROBE_BYTES = Buffer.alloc(4096, "probe");
const LOOK_AGAIN_MS = 2_000;

/** Throws what the system says when the folder takes no more: an empty file would still find room on a full disk. */
export function probeDisk(folder: string): void {
  const path = join(folder, `.probe-${process.pid}`);
  const file = openSync(path, "w", 0o600);
  try {
    writeSync(file, PROBE_BYTES);
    fsyncSync(file);
  } finally {
    closeSync(file);
    unlinkSync(path);
  }
}

/**
 * Whether what is acknowledged can still be kept: a word for readiness, or null. Looked up every two seconds at most,
 * since anybody may ask. `commit` makes a change of the database, whose file can be bounded where others are not.
 */
export function watchDisk(folder: string, now: Now, commit: () => Promise<void>): () => string | null {
  let lookedAt = Number.NEGATIVE_INFINITY;
  let disk: string | null = null;
  let database: string | null = null;

  function look(): void {
    lookedAt = now();
    try {
      probeDisk(folder);
      disk = null;
    } catch (error) {
      disk = `the disk takes no more writes (${(error as { code?: string }).code ?? "unknown"})`;
    }
    commit().then(
      () => {
        database = null;
      },
      () => {
        database = "the database takes no more writes";
      },
    );
  }

  return () => {
    if (Math.abs(now() - lookedAt) >= LOOK_AGAIN_MS) look();
    return disk ?? database;
  };
}
