import { Database } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { canShrink, shrinkDatabase } from "../../../src/kernel/db/shrink.ts";
import { closeRuntime, createRuntime, pruneCopies, type Runtime } from "../../../src/kernel/runtime.ts";
import { systemTimers } from "../../../src/kernel/time/timers.ts";
import { testConfig } from "../../harness/test-config.ts";

let folder: string;
let runtime: Runtime | null = null;

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stoa-shrink-"));
});
afterEach(async () => {
  if (runtime) await closeRuntime(runtime);
  runtime = null;
  rmSync(folder, { recursive: true, force: true });
});

const AT_ONCE = { after: (_ms: number, run: () => void) => systemTimers.after(0, run) };

function sizeAfterCheckpoint({ db }: Runtime): number {
  db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  return statSync(join(folder, "stoa.db")).size;
}

test("the file shrinks after rows were deleted, a megabyte at a time, and other writes have their turn between", async () => {
  runtime = createRuntime(testConfig({ DATA_DIR: folder }));
  const { db, write } = runtime;
  db.$client.run("CREATE TABLE notes (id INTEGER PRIMARY KEY, text TEXT) STRICT");
  await write(() => {
    for (let n = 0; n < 5_000; n++) db.$client.run("INSERT INTO notes (text) VALUES (?)", ["x".repeat(4_000)]);
  });
  const full = sizeAfterCheckpoint(runtime);
  await write(() => void db.$client.run("DELETE FROM notes WHERE id > 10"));
  expect(sizeAfterCheckpoint(runtime)).toBe(full);
  let turns = 0;
  const shrinking = shrinkDatabase(db.$client, write, AT_ONCE);
  let done = false;
  void shrinking.then(() => {
    done = true;
  });
  while (!done) {
    await write(() => void db.$client.run("UPDATE notes SET text = 'y' WHERE id = 1"));
    turns++;
  }
  expect(turns).toBeGreaterThan(10);
  expect(sizeAfterCheckpoint(runtime)).toBeLessThan(full / 4);
  expect(db.$client.query("SELECT count(*) AS count FROM notes").get()).toEqual({ count: 10 });
});

test("a small file of an earlier version is rewritten at the start, so that it can shrink", async () => {
  await closeRuntime(createRuntime(testConfig({ DATA_DIR: folder })));
  const old = new Database(join(folder, "stoa.db"));
  old.run("PRAGMA auto_vacuum = NONE");
  old.run("VACUUM");
  expect(canShrink(old)).toBe(false);
  old.close();
  runtime = createRuntime(testConfig({ DATA_DIR: folder }));
  expect(canShrink(runtime.db.$client)).toBe(true);
});

test("copies from before a migration are removed after a week", () => {
  const now = Date.parse("2026-11-18T12:00:00Z");
  const week = 7 * 86_400_000;
  for (const at of [now - week - 1, now - week + 1]) writeFileSync(join(folder, `before-migration-${at}.db`), "");
  pruneCopies(folder, now);
  expect(existsSync(join(folder, `before-migration-${now - week - 1}.db`))).toBe(false);
  expect(existsSync(join(folder, `before-migration-${now - week + 1}.db`))).toBe(true);
});
