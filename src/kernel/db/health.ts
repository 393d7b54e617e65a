/** Whether the database is intact. A damaged file must not look healthy: it fails readiness and says what to do. */
import { statSync } from "node:fs";
import { ApiError } from "../../protocol/errors.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Now } from "../time/clock.ts";
import { type Db, ReportingDatabase } from "./open.ts";
import { SplitClient } from "./split-client.ts";

/** An error of the device may pass; a damaged page stays until a backup is restored. */
const DEVICE_ERROR_LASTS_MS = 30_000;
const CHECK_EVERY_MS = 2_000;

/** Primary result codes by their number, which node:sqlite gives instead of a name. */
const NAMES: Record<number, string> = {
  10: "SQLITE_IOERR",
  11: "SQLITE_CORRUPT",
  13: "SQLITE_FULL",
  26: "SQLITE_NOTADB",
};

/** The name of SQLite's error, such as `SQLITE_CORRUPT_INDEX`; null for anything else. */
export function sqliteCode(error: unknown): string | null {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  if (typeof errcode === "number") return NAMES[errcode & 0xff] ?? `SQLITE_${errcode & 0xff}`;
  return typeof code === "string" && code.startsWith("SQLITE_") ? code : null;
}

/** A full disk is not a fault of the server: the client is told so. Null for every other error. */
export function storageFullError(error: unknown): ApiError | null {
  const isFull = (error as { code?: unknown } | null)?.code === "ENOSPC" || sqliteCode(error) === "SQLITE_FULL";
  return isFull ? new ApiError("SVC_STORAGE_FULL", "The server's disk is full. Try again later.") : null;
}

export type DatabaseHealth = {
  /** Why the database cannot be trusted, for the readiness check. */
  problem(): string | null;
  /** A check of all pages has found this; null when everything was in order. */
  checked(found: string | null): void;
};

export type HealthOptions = {
  db: Db;
  log: Log;
  metrics: Metrics;
  now: Now;
  /** The newest backup, for the advice. */
  latestBackup: () => string | null;
};

export function watchDatabase({ db, log, metrics, now, latestBackup }: HealthOptions): DatabaseHealth {
  const client: unknown = db.$client;
  const reader = client instanceof SplitClient ? client.reader : client;
  const errors = metrics.counter("stoa_sqlite_errors_total", "Statements that SQLite refused, by its code.", ["code"]);
  let damage: string | null = null;
  let deviceError: { code: string; at: number } | null = null;
  const wal = watchWal(db.$client.filename, now, () => db.$client.run("PRAGMA wal_checkpoint(PASSIVE)"));
  metrics.gaugeOf("stoa_database_damaged", "1 when the database is damaged or cannot be read, otherwise 0.", () =>
    problem() === null ? 0 : 1,
  );

  function advice(): string {
    const backup = latestBackup();
    return backup === null
      ? "stop the server and restore a backup with `stoa restore FILE`"
      : `stop the server and run \`stoa restore ${backup}\``;
  }

  function damaged(found: string): void {
    if (damage !== null) return;
    damage = `the database is damaged (${found}): ${advice()}`;
    log.error({ found, backup: latestBackup() }, "database: damaged, restore a backup with stoa restore");
  }

  function report(error: unknown): void {
    const code = sqliteCode(error);
    // A row that breaks a constraint is an answer, not an error.
    if (code === null || code.startsWith("SQLITE_CONSTRAINT")) return;
    errors.inc({ code });
    if (/^SQLITE_(CORRUPT|NOTADB)/.test(code)) damaged(code);
    if (!code.startsWith("SQLITE_IOERR")) return;
    if (deviceError === null) log.error({ code }, "database: device reports errors, check the disk");
    deviceError = { code, at: now() };
  }

  function problem(): string | null {
    if (deviceError !== null && now() - deviceError.at > DEVICE_ERROR_LASTS_MS) deviceError = null;
    if (damage !== null) return damage;
    if (deviceError !== null) {
      return `the database's disk reports errors (${deviceError.code}): check the disk; if it is broken, ${advice()}`;
    }
    return wal();
  }

  if (reader instanceof ReportingDatabase) reader.onError = report;
  return {
    problem() {
      try {
        // Reads a page, so that a file that is gone or unreadable is noticed without any other request.
        db.$client.query("SELECT count(*) FROM installation").get();
      } catch {
        return problem() ?? "the database does not respond";
      }
      return problem();
    },
    checked(found) {
      if (found === null) damage = null;
      else damaged(found);
    },
  };
}

/**
 * Without its file, the write-ahead log lives on in the open descriptor only: what it has is copied into the database at
 * once, but another process would begin a new log, and both would write.
 */
function watchWal(database: string, now: Now, checkpoint: () => void): () => string | null {
  if (database === "" || database === ":memory:") return () => null;
  const inodeOf = () => statSync(`${database}-wal`, { throwIfNoEntry: false })?.ino ?? null;
  const inode = inodeOf();
  let checkedAt = now();
  let isGone = false;
  return () => {
    if (!isGone && inode !== null && Math.abs(now() - checkedAt) >= CHECK_EVERY_MS) {
      checkedAt = now();
      isGone = inodeOf() !== inode;
      if (isGone) checkpoint();
    }
    return isGone
      ? `${database}-wal was deleted or replaced: restart the server, and let nothing else change its files`
      : null;
  };
}
