import { afterEach, beforeEach, expect, test } from "bun:test";
import { closeSync, mkdtempSync, openSync, readdirSync, rmSync, writeFileSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { watchDatabase } from "../../src/kernel/db/health.ts";
import { closeRuntime, createRuntime, databasePath, type Runtime } from "../../src/kernel/runtime.ts";
import { verifyBackup } from "../../src/ops/backup/restore.ts";
import { backupName, backupSchedule } from "../../src/ops/backup/schedule.ts";
import { testConfig } from "../harness/test-config.ts";

const HOUR_MS = 3_600_000;
const START = Date.parse("2026-03-01T12:00:00Z");

let work: string;
let folder: string;
const runtimes: Runtime[] = [];

beforeEach(() => {
  work = mkdtempSync(join(tmpdir(), "stoa-schedule-"));
  folder = join(work, "backups");
});
afterEach(async () => {
  for (const runtime of runtimes.splice(0)) await closeRuntime(runtime);
  rmSync(work, { recursive: true, force: true });
});

function runtimeWith(backupDir: string | undefined): Runtime {
  const config = testConfig({
    DATA_DIR: join(work, "data"),
    BACKUP_DIR: backupDir,
    BACKUP_EVERY_HOURS: 6,
    BACKUP_KEEP: 2,
  });
  const runtime = createRuntime(config);
  runtimes.push(runtime);
  return runtime;
}

test("[11] backups are made at their interval, survive restarts and replace the oldest", async () => {
  await backupSchedule(runtimeWith(folder)).runDue(START);
  expect(readdirSync(folder)).toEqual([backupName(START)]);
  writeFileSync(join(folder, "stoa-notes.tar"), "of somebody else");
  writeFileSync(join(folder, `${backupName(START)}.partial`), "left by a crash");

  const runtime = runtimeWith(folder);
  const afterRestart = backupSchedule(runtime);
  await afterRestart.runDue(START + 6 * HOUR_MS - 1);
  expect(readdirSync(folder)).toHaveLength(3);
  await afterRestart.runDue(START + 6 * HOUR_MS);
  await afterRestart.runDue(START + 12 * HOUR_MS);
  const kept = [backupName(START + 6 * HOUR_MS), backupName(START + 12 * HOUR_MS)];
  expect(readdirSync(folder).sort()).toEqual([...kept, "stoa-notes.tar"]);
  for (const name of kept) {
    const file = join(folder, name);
    const options = { file, dataDir: work, migrationsDir: join(import.meta.dir, "../../migrations"), now: START };
    expect((await verifyBackup(options)).format).toBe(1);
  }
  expect(await runtime.metrics.registry.metrics()).toContain(
    `stoa_last_backup_timestamp_seconds ${(START + 12 * HOUR_MS) / 1000}`,
  );
});

test("[11] a backup that fails removes no older one and is tried again within the hour", async () => {
  let attempts = 0;
  const schedule = backupSchedule(runtimeWith(folder), {
    make: async () => {
      attempts++;
      throw new Error("no space left on device");
    },
  });
  await backupSchedule(runtimeWith(folder)).runDue(START);
  const due = START + 6 * HOUR_MS;
  await expect(schedule.runDue(due)).rejects.toThrow("no space left");
  await schedule.runDue(due + HOUR_MS - 1);
  expect(attempts).toBe(1);
  await expect(schedule.runDue(due + HOUR_MS)).rejects.toThrow("no space left");
  expect(readdirSync(folder)).toEqual([backupName(START)]);
});

test("[11] a damaged page that only a backup reads fails readiness", async () => {
  const runtime = runtimeWith(folder);
  const health = watchDatabase({ ...runtime, latestBackup: () => null, isMember: false });
  // Flushes the log into the file, so that the copy reads the pages from there.
  runtime.db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  const root = runtime.db.$client
    .query<{ page: number }, []>("SELECT rootpage AS page FROM sqlite_schema WHERE name = 'attachments'")
    .get();
  const file = openSync(databasePath(runtime.config), "r+");
  writeSync(file, Buffer.alloc(4_096, 0xff), 0, 4_096, ((root?.page ?? 0) - 1) * 4_096);
  closeSync(file);
  expect(health.problem()).toBeNull();
  await expect(backupSchedule(runtime, { database: health }).runDue(START)).rejects.toThrow("malformed");
  expect(health.problem()).toContain("the database is damaged (SQLITE_CORRUPT");
  health.stop();
});

test("[11] a server that stops does not wait for a backup", async () => {
  const schedule = backupSchedule(runtimeWith(folder), {
    make: (_options, signal) => {
      schedule.giveUp();
      return new Promise((_, reject) => {
        if (signal.aborted) reject(new Error("given up"));
      });
    },
  });
  await expect(schedule.runDue(START)).rejects.toThrow("given up");
});

test("[11] without BACKUP_DIR no backup is made", async () => {
  await backupSchedule(runtimeWith(undefined)).runDue(START);
  expect(readdirSync(work)).toEqual(["data"]);
});
