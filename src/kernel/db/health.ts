/** Whether the database is intact. A damaged file must not look healthy: the readiness check fails with a remedy. */
import { dirname } from "node:path";
import { ApiError } from "../../protocol/errors.ts";
import type { Log } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Now } from "../time/clock.ts";
import type { Timers } from "../time/timers.ts";
import { watchFiles } from "./file-watch.ts";
import { type Db, ReportingDatabase } from "./open.ts";
import { SplitClient } from "./split-client.ts";

/** An error of the device may be temporary; a damaged page stays until a backup is restored. */
const DEVICE_ERROR_LASTS_MS = 30_000;

/** Primary result codes by number, which node:sqlite reports instead of a name. */
const NAMES: Record<number, string> = {
  10: "SQLITE_IOERR",
  11: "SQLITE_CORRUPT",
  13: "SQLITE_FULL",
  26: "SQLITE_NOTADB",
};

/** The name of SQLite's error, such as `SQLITE_CORRUPT_INDEX`; null for other errors. */
export function sqliteCode(error: unknown): string | null {
  const { code, errcode } = (error ?? {}) as { code?: unknown; errcode?: unknown };
  if (typeof errcode === "number") return NAMES[errcode & 0xff] ?? `SQLITE_${errcode & 0xff}`;
  return typeof code === "string" && code.startsWith("SQLITE_") ? code : null;
}

/** Whether the file itself is damaged, as opposed to a device that reports errors or a disk that is full. */
export function isDamage(error: unknown): boolean {
  return /^SQLITE_(CORRUPT|NOTADB)/.test(sqliteCode(error) ?? "");
}

/** A full disk has its own error for clients. Null for every other error. */
export function storageFullError(error: unknown): ApiError | null {
  const isFull = (error as { code?: unknown } | null)?.code === "ENOSPC" || sqliteCode(error) === "SQLITE_FULL";
  return isFull ? new ApiError("SVC_STORAGE_FULL", "The server's disk is full. Try again later.") : null;
}

export type DatabaseHealth = {
  /** Why the database cannot be trusted, for the readiness check. */
  problem(): string | null;
  /** Called with the result of a check of all pages; null when no damage was found. */
  checked(found: string | null): void;
  /** Called with an error that another connection to the file has met; errors that are not SQLite's are ignored. */
  report(error: unknown): void;
  stop(): void;
};

type HealthOptions = {
  db: Db;
  log: Log;
  metrics: Metrics;
  now: Now;
  timers: Timers;
  /** Returns the newest backup, for the remedy in the message. */
  latestBackup: () => string | null;
  /** A server of a cluster gets a whole file from another one, and must not restore a backup by itself. */
  isMember: boolean;
};

export function watchDatabase(options: HealthOptions): DatabaseHealth {
  const { db, log, metrics, now, timers, latestBackup, isMember } = options;
  const client: unknown = db.$client;
  const reader = client instanceof SplitClient ? client.reader : client;
  const errors = metrics.counter("stoa_sqlite_errors_total", "Statements that SQLite refused, by its code.", ["code"]);
  let damage: string | null = null;
  let deviceError: { code: string; at: number } | null = null;
  let isChecking = false;
  const files = watchFiles({ ...options, advice });
  metrics.gaugeOf("stoa_database_damaged", "1 when the database is damaged or cannot be read, otherwise 0.", () =>
    problem() === null ? 0 : 1,
  );

  function advice(): string {
    if (isMember) {
      return `stop the server, move ${db.$client.filename} away and start it: it fetches a copy from another server`;
    }
    const folder = dirname(db.$client.filename);
    return `stop the server and run \`stoa restore --data-dir ${folder} ${latestBackup() ?? "FILE"}\``;
  }

  function damaged(found: string): void {
    if (damage !== null) return;
    damage = `the database is damaged (${found}): ${advice()}`;
    log.error({ found, backup: latestBackup() }, "database: damaged, restore a backup with stoa restore");
  }

  function report(error: unknown): void {
    const code = sqliteCode(error);
    // A violated constraint is an expected result, not an error of the database.
    if (code === null || code.startsWith("SQLITE_CONSTRAINT")) return;
    errors.inc({ code });
    if (isDamage(error)) damaged(code);
    if (!code.startsWith("SQLITE_IOERR")) return;
    if (deviceError === null) log.error({ code }, "database: device reports errors, check the disk");
    deviceError = { code, at: now() };
    checkFiles();
  }

  /** A truncated file first looks like an error of the device, and what is written to it meanwhile is lost. */
  function checkFiles(): void {
    // The check itself may report an error and call this again.
    if (isChecking) return;
    isChecking = true;
    timers.after(0, () => {
      try {
        files.check();
      } catch (err) {
        log.error({ err }, "database: files not checked");
      } finally {
        isChecking = false;
      }
    });
  }

  function problem(): string | null {
    if (deviceError !== null && now() - deviceError.at > DEVICE_ERROR_LASTS_MS) deviceError = null;
    const lost = damage ?? files.problem();
    if (lost !== null) return lost;
    if (deviceError !== null) {
      return `the database's disk reports errors (${deviceError.code}): check the disk; if it is broken, ${advice()}`;
    }
    return null;
  }

  if (reader instanceof ReportingDatabase) reader.onError = report;
  if (client instanceof SplitClient) client.recording.onError = report;
  return {
    report,
    stop: files.stop,
    problem() {
      try {
        // This read needs the file's locks, and reads its pages unless they are cached.
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
