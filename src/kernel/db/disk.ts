import { closeSync, fsyncSync, openSync, statfsSync, unlinkSync, writeSync } from "node:fs";
import { open, unlink } from "node:fs/promises";
import { join } from "node:path";
import type { Now } from "../clock.ts";

export function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

const PROBE_BYTES = Buffer.alloc(4096, "probe");
const LOOK_AGAIN_MS = 2_000;

/** Throws what the system says when the folder takes no more: an empty file would still find room on a full disk. */
function probeDisk(folder: string): void {
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

/** The same for whoever can wait, while nobody else does; however many ask at once, one looks for all of them. */
export function createDiskProbe(folder: string): () => Promise<void> {
  const path = join(folder, `.probe-${process.pid}-asked`);
  let looking: Promise<void> | null = null;

  async function look(): Promise<void> {
    const file = await open(path, "w", 0o600);
    try {
      await file.write(PROBE_BYTES);
      await file.sync();
    } finally {
      await file.close();
      await unlink(path);
    }
  }

  return () => {
    looking ??= look().finally(() => {
      looking = null;
    });
    return looking;
  };
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
