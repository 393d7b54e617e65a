import { existsSync, mkdirSync, readdirSync, rmSync, statfsSync, statSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { assetFolder } from "../../kernel/assets.ts";
import { pendingMigrations, readMigrations } from "../../kernel/db/migrate.ts";
import { openDatabase } from "../../kernel/db/open.ts";
import { messageOf } from "../../kernel/error-message.ts";
import { backupTime } from "../backup/schedule.ts";
import { type Check, type CheckContext, type CheckGroup, fail, pass, warn } from "./check.ts";

const HOUR_MS = 3_600_000;
const MIN_FREE_BYTES = 512 * 1024 * 1024;
/** Network file systems of Linux, on which SQLite's locks and its log are not safe. */
const REMOTE = new Map([
  [0x6969, "NFS"],
  [0xff534d42, "SMB"],
  [0xfe534d42, "SMB"],
  [0x65735546, "FUSE"],
  [0x01021997, "9P"],
]);

export const checkData: CheckGroup = async (context) => {
  const directory = dataDirectory(context);
  if (directory.status === "fail") return [directory];
  return [directory, database(context), diskSpace(context), backups(context)];
};

function dataDirectory({ config: { DATA_DIR } }: CheckContext): Check {
  const name = "data-directory";
  const probe = join(DATA_DIR, `.doctor-${process.pid}`);
  try {
    mkdirSync(DATA_DIR, { recursive: true, mode: 0o700 });
    writeFileSync(probe, "", { flush: true });
    rmSync(probe);
  } catch (error) {
    return fail(name, messageOf(error), `Make ${DATA_DIR} writable for the user that runs Stoa, or set DATA_DIR.`);
  }
  const kind = process.platform === "linux" ? REMOTE.get(Number(statfsSync(DATA_DIR).type)) : undefined;
  if (kind === undefined) return pass(name, `${resolve(DATA_DIR)} is writable`);
  return warn(name, `${DATA_DIR} is on ${kind}`, "Move DATA_DIR to a disk of this machine.");
}

function database({ config: { DATA_DIR } }: CheckContext): Check {
  const name = "database";
  const path = join(DATA_DIR, "stoa.db");
  if (!existsSync(path)) return pass(name, "none yet; the first start makes it");
  try {
    const db = openDatabase(path, { readonly: true });
    try {
      const { integrity_check: found } = db.$client
        .query<{ integrity_check: string }, []>("PRAGMA integrity_check(1)")
        .get() ?? { integrity_check: "no result" };
      if (found !== "ok") return fail(name, found, "Stop the server and restore a backup with `stoa restore`.");
      const pending = pendingMigrations(db, readMigrations(assetFolder("migrations")));
      if (pending.length === 0) return pass(name, "whole, and its schema is that of this version");
      return warn(name, `${pending.length} migrations are pending`, "The next start applies them, after a copy.");
    } finally {
      db.$client.close();
    }
  } catch (error) {
    return fail(name, messageOf(error), "Use the version that wrote it, or restore a backup with `stoa restore`.");
  }
}

function diskSpace({ config: { DATA_DIR } }: CheckContext): Check {
  const name = "disk-space";
  const { bavail, bsize } = statfsSync(DATA_DIR);
  const free = bavail * bsize;
  const size = statSync(join(DATA_DIR, "stoa.db"), { throwIfNoEntry: false })?.size ?? 0;
  const detail = `${Math.floor(free / 1_000_000)} MB free, the database has ${Math.ceil(size / 1_000_000)} MB`;
  const remedy = "Make room: a copy of the database is made before every upgrade and for every backup.";
  if (free < MIN_FREE_BYTES / 8) return fail(name, detail, remedy);
  return free < Math.max(MIN_FREE_BYTES, 2 * size) ? warn(name, detail, remedy) : pass(name, detail);
}

function backups({ config, now }: CheckContext): Check {
  const name = "backups";
  const { BACKUP_DIR: folder, BACKUP_EVERY_HOURS: everyHours, DATA_DIR } = config;
  if (folder === undefined) return warn(name, "none are scheduled", "Set BACKUP_DIR, or run `stoa backup` by a timer.");
  if (!existsSync(folder)) return warn(name, `${folder} is not there yet`, "The first backup is made after a minute.");
  const times = readdirSync(folder).flatMap((file) => backupTime(file) ?? []);
  if (times.length === 0) return warn(name, `none in ${folder} yet`, "The first backup is made after a minute.");
  const newest = Math.max(...times);
  const hours = (now - newest) / HOUR_MS;
  if (!(hours <= everyHours + 1)) {
    return warn(name, `the newest in ${folder} is too old`, "Look for `jobs: job failed` and `back-up` in the log.");
  }
  const sameDisk = statSync(folder).dev === statSync(DATA_DIR).dev;
  const detail = `the newest in ${dirname(join(folder, "x"))} is ${Math.floor(hours)} hours old`;
  return sameDisk
    ? warn(name, `${detail}, on the same disk as the data`, "Copy backups elsewhere.")
    : pass(name, detail);
}
