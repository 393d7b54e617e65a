import { Database } from "bun:sqlite";
import { afterAll, beforeAll, expect, test } from "bun:test";
import { readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { copyDatabase } from "../../src/ops/backup/make-backup.ts";
import { stoa } from "../cli/stoa.ts";
import { BackedUp } from "./backed-up.ts";

/** A copy on the main thread lets at most the first message and the one after the copy be acknowledged. */
const MESSAGES = 10;
const MEBIBYTE = 1024 * 1024;

let server: BackedUp;

beforeAll(async () => {
  server = await BackedUp.start();
}, 60_000);

afterAll(() => server.stop());

/** Sends one message after the other while `work` runs, and counts those acknowledged before it ended. */
async function acknowledgedDuring(work: Promise<unknown>): Promise<number> {
  let over = false;
  const ended = work.finally(() => {
    over = true;
  });
  let acknowledged = 0;
  for (;;) {
    await server.send();
    if (over) break;
    acknowledged++;
  }
  await ended;
  return acknowledged;
}

test("[11] messages are acknowledged while a scheduled backup of 100 MB is made", async () => {
  const file = join(server.work, "thread.tar");
  expect(await acknowledgedDuring(server.make("thread", file))).toBeGreaterThanOrEqual(MESSAGES);
  expect(statSync(file).size).toBeGreaterThan(100_000_000);
}, 400_000);

test("[11] messages are acknowledged while `stoa backup` runs beside the server", async () => {
  const file = join(server.work, "beside.tar");
  const backup = async () => expect((await stoa(["backup", file, "--data-dir", server.dataDir])).code).toBe(0);
  expect(await acknowledgedDuring(backup())).toBeGreaterThanOrEqual(MESSAGES);
  expect(statSync(file).size).toBeGreaterThan(100_000_000);
}, 400_000);

test("[11] a copy on the main thread delays acknowledgements measurably", async () => {
  expect(await acknowledgedDuring(server.make("blocking", join(server.work, "blocking.db")))).toBeLessThan(MESSAGES);
}, 60_000);

test("[11] the copy of the database that a backup is made from is not flushed to disk", () => {
  const plain = join(server.work, "plain");
  const copy = join(server.work, "copy.db");
  // Only some file systems count bytes that are discarded before they are written.
  const counts = thrownAwayBy(plain, () => writeFileSync(plain, Buffer.alloc(MEBIBYTE))) >= MEBIBYTE;
  const flushed = thrownAwayBy(copy, () => copyFlushed(join(server.dataDir, "stoa.db"), copy));
  const unflushed = thrownAwayBy(copy, () => copyDatabase(join(server.dataDir, "stoa.db"), copy));
  if (!counts) return;
  expect(flushed).toBeLessThan(10 * MEBIBYTE);
  // A system with little memory starts to write some of the 100 MB by itself.
  expect(unflushed).toBeGreaterThan(20 * MEBIBYTE);
}, 60_000);

function copyFlushed(source: string, copy: string): void {
  const client = new Database(source);
  client.run("VACUUM INTO ?", [copy]);
  client.close();
}

/** Bytes of `path`, made by `make`, that were not written to disk when it is removed. */
function thrownAwayBy(path: string, make: () => void): number {
  make();
  const before = thrownAway();
  rmSync(path);
  return thrownAway() - before;
}

function thrownAway(): number {
  return Number(/^cancelled_write_bytes: (\d+)$/m.exec(readFileSync("/proc/self/io", "utf8"))?.[1] ?? 0);
}
