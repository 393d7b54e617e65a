import type { Database } from "bun:sqlite";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { checkpointWhenIdle, type Db, openDatabase } from "../../../src/kernel/db/open.ts";
import { createWriter, type Writer } from "../../../src/kernel/db/writer.ts";
import type { IdleWatch } from "../../../src/kernel/scheduling/idle.ts";
import { type FakeClock, fakeClock } from "../../harness/clock.ts";

let folder: string;
let db: Db;
let clock: FakeClock;
let checkpoints: IdleWatch;
let writer: Writer;
const problems: unknown[] = [];

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stoa-checkpoints-"));
  db = openDatabase(join(folder, "stoa.db"));
  db.$client.run("CREATE TABLE notes (n INTEGER PRIMARY KEY) STRICT");
  db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  clock = fakeClock();
  problems.length = 0;
  const problem = (error: unknown) => void problems.push(error);
  checkpoints = checkpointWhenIdle(db.$client, clock, problem);
  writer = createWriter(db.$client, problem, checkpoints.activity);
});
afterEach(() => {
  db.$client.close();
  rmSync(folder, { recursive: true, force: true });
});

let next = 1;
async function commit(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await writer.write(() => db.$client.run("INSERT INTO notes VALUES (?)", [next++]));
}

/** Rows in the file itself, without its log. */
function checkpointed(): number {
  const alone = join(folder, "alone.db");
  copyFileSync(join(folder, "stoa.db"), alone);
  const copy = openDatabase(alone);
  const { count } = copy.$client.query<{ count: number }, []>("SELECT count(*) AS count FROM notes").get() ?? {};
  copy.$client.close();
  rmSync(alone);
  return count ?? -1;
}

test("the write-ahead log is checkpointed between commits once it holds enough of them", async () => {
  await commit(49);
  clock.advance(60_000);
  expect(checkpointed()).toBe(0);
  await commit(1);
  expect(checkpointed()).toBe(0);
  clock.advance(3);
  expect(checkpointed()).toBe(50);
});

test("there is no checkpoint while commits continue", async () => {
  await commit(50);
  for (let round = 1; round <= 20; round++) {
    clock.advance(2);
    await commit(1);
  }
  expect(checkpointed()).toBe(0);
  clock.advance(3);
  clock.advance(3);
  expect(checkpointed()).toBe(70);
  expect(clock.pending()).toBe(0);
});

test("a checkpoint that a reader prevents loses nothing and happens after later commits", async () => {
  const reader = openDatabase(join(folder, "stoa.db"), { readonly: true });
  reader.$client.run("BEGIN");
  reader.$client.query("SELECT * FROM notes").all(); // keeps the snapshot from before the commits
  await commit(50);
  clock.advance(3);
  expect(checkpointed()).toBe(0);
  reader.$client.run("COMMIT");
  reader.$client.close();
  await commit(50);
  clock.advance(3);
  expect(checkpointed()).toBe(100);
});

test("a checkpoint that fails is reported and tried again after the next commits", () => {
  const full = {
    prepare: () => ({
      run() {
        throw new Error("the disk is full");
      },
    }),
  } as unknown as Database;
  const { activity: committed } = checkpointWhenIdle(full, clock, (error) => problems.push(error));
  for (const tries of [1, 2]) {
    for (let i = 0; i < 50; i++) committed();
    clock.advance(3);
    expect(problems).toHaveLength(tries);
  }
});

test("failed commits do not count towards a checkpoint", async () => {
  for (let i = 0; i < 60; i++)
    await writer.write(() => db.$client.run("INSERT INTO nowhere VALUES (1)")).catch(() => {});
  expect(clock.pending()).toBe(0);
});

test("a stopped watch leaves no timer behind", async () => {
  await commit(50);
  expect(clock.pending()).toBe(1);
  checkpoints.stop();
  expect(clock.pending()).toBe(0);
  expect(problems).toEqual([]);
});
