import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync, statSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { watchFiles } from "../../../src/kernel/db/file-watch.ts";
import { watchDatabase } from "../../../src/kernel/db/health.ts";
import { type Db, openDatabase } from "../../../src/kernel/db/open.ts";
import { createLog } from "../../../src/kernel/log.ts";
import { createMetrics } from "../../../src/kernel/metrics.ts";
import { fakeClock } from "../../harness/clock.ts";

const PAGES = 20;
const CHECK_EVERY_MS = 2_000;
const log = createLog({ level: "fatal", format: "json", write: () => {} });
let folder: string;
let path: string;
let db: Db;
let clock: ReturnType<typeof fakeClock>;
let watched: ReturnType<typeof watchFiles>;

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "stoa-file-watch-"));
  path = join(folder, "stoa.db");
  db = openDatabase(path, { durability: "OFF" });
  db.$client.run("CREATE TABLE notes (text TEXT)");
  clock = fakeClock();
  watched = watchFiles({ db, log, timers: clock, advice: () => "restore a backup" });
  write(PAGES);
  await check();
  expect(watched.problem()).toBeNull();
});
afterEach(() => {
  watched.stop();
  db.$client.close();
  rmSync(folder, { recursive: true });
});

function write(count: number): void {
  for (let n = 0; n < count; n++) db.$client.run("INSERT INTO notes VALUES (?)", ["x".repeat(5_000)]);
}

async function check(): Promise<void> {
  clock.advance(CHECK_EVERY_MS);
  await Promise.resolve();
}

const isAcknowledged = () => {
  try {
    write(1);
    return true;
  } catch {
    return false;
  }
};

for (const share of [0, 0.1, 0.5, 0.99]) {
  test(`a log that was truncated to ${share * 100} % is noticed, and no write is acknowledged`, async () => {
    truncateSync(`${path}-wal`, Math.floor(statSync(`${path}-wal`).size * share));
    await check();
    expect(watched.problem()).toBe(
      "stoa.db-wal was truncated, so that commits are lost and nothing more is written: restore a backup",
    );
    expect(isAcknowledged()).toBe(false);
  });

  test(`a log that was truncated to ${share * 100} % and appended to is noticed`, async () => {
    truncateSync(`${path}-wal`, Math.floor(statSync(`${path}-wal`).size * share));
    write(1);
    await check();
    expect(watched.problem()).toContain("stoa.db-wal was truncated");
    expect(isAcknowledged()).toBe(false);
  });
}

for (const suffix of ["", "-wal", "-shm"]) {
  test(`a deleted stoa.db${suffix} is noticed, and no write is acknowledged`, async () => {
    rmSync(path + suffix);
    await check();
    expect(watched.problem()).toContain(`stoa.db${suffix} was deleted or replaced`);
    expect(isAcknowledged()).toBe(false);
  });
}

test("after an I/O error the database files are checked before anything else is written", () => {
  db.$client.run("CREATE TABLE installation (id TEXT)");
  const metrics = createMetrics();
  const health = watchDatabase({
    db,
    log,
    metrics,
    now: clock.now,
    timers: clock,
    latestBackup: () => null,
    isMember: false,
  });
  expect(health.problem()).toBeNull();
  truncateSync(`${path}-wal`, 100_000);
  health.report(Object.assign(new Error("disk I/O error"), { code: "SQLITE_IOERR_SHORT_READ" }));
  clock.advance(0);
  expect(health.problem()).toStartWith("stoa.db-wal was truncated");
  expect(isAcknowledged()).toBe(false);
  health.stop();
});

test("checkpoints of this and another process are not mistaken for damage", async () => {
  const other = openDatabase(path);
  for (const mode of ["PASSIVE", "RESTART", "TRUNCATE", "FULL"]) {
    for (const { $client } of [db, other]) {
      $client.run(`PRAGMA wal_checkpoint(${mode})`);
      await check();
      write(3);
      await check();
      expect(watched.problem()).toBeNull();
    }
  }
  other.$client.close();
  await check();
  expect(watched.problem()).toBeNull();
  expect(isAcknowledged()).toBe(true);
});

test("the check itself writes nothing from the log into the database", async () => {
  const { size } = statSync(path);
  for (let n = 0; n < 5; n++) await check();
  expect(statSync(path).size).toBe(size);
});
