import { closeSync, fsyncSync, openSync, statfsSync, statSync, unlinkSync, writeSync } from "node:fs";
import { open, unlink } from "node:fs/promises";
import { join } from "node:path";
import type { Metrics } from "../metrics.ts";
import type { Now } from "../time/clock.ts";

export function freeBytes(folder: string): number {
  const { bavail, bsize } = statfsSync(folder);
  return bavail * bsize;
}

export function measureDisk(metrics: Metrics, folder: string): void {
  const sizeOf = (name: string) => statSync(join(folder, name), { throwIfNoEntry: false })?.size ?? 0;
  metrics.gaugesOf(
    {
      stoa_disk_free_bytes: ["Free space on the disk of DATA_DIR.", ({ free }) => free],
      stoa_database_bytes: ["Size of the database file.", ({ database }) => database],
      stoa_database_wal_bytes: ["Size of the database's write-ahead log.", ({ log }) => log],
    },
    async () => ({ free: freeBytes(folder), database: sizeOf("stoa.db"), log: sizeOf("stoa.db-wal") }),
  );
}

const PROBE_BYTES = Buffer.alloc(4096, "probe");
const CHECK_EVERY_MS = 2_000;

/** Throws the system's error when the disk is full. The file needs content: an empty one fits on a full disk. */
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

/** Probes the disk without blocking the thread; concurrent calls share one probe. */
export function createDiskProbe(folder: string): () => Promise<void> {
  const path = join(folder, `.probe-${process.pid}-async`);
  let probing: Promise<void> | null = null;

  async function probe(): Promise<void> {
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
    probing ??= probe().finally(() => {
      probing = null;
    });
    return probing;
  };
}

/**
 * Returns why the server cannot store anything, for the readiness check, or null. The disk is probed every two seconds
 * at most, because any client may call that route. `commit` writes to the database, whose file can be limited when
 * other files are not.
 */
export function watchDisk(folder: string, now: Now, commit: () => Promise<void>): () => string | null {
  let checkedAt = Number.NEGATIVE_INFINITY;
  let disk: string | null = null;
  let database: string | null = null;

  function check(): void {
    checkedAt = now();
    try {
      probeDisk(folder);
      disk = null;
    } catch (error) {
      const { code = "unknown" } = error as { code?: string };
      // Without a free file descriptor nothing is known of the disk.
      if (code !== "EMFILE") disk = `the disk takes no more writes (${code})`;
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
    if (Math.abs(now() - checkedAt) >= CHECK_EVERY_MS) check();
    return disk ?? database;
  };
}
