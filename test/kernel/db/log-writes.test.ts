// needs: gcc
import type { Database } from "bun:sqlite";
import { afterAll, beforeEach, expect, test } from "bun:test";
import { copyFileSync, mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openDatabase } from "../../../src/kernel/db/open.ts";

const FRAME_BYTES = 24 + 4_096;
const work = mkdtempSync(join(tmpdir(), "stoa-log-writes-"));
afterAll(() => rmSync(work, { recursive: true, force: true }));

let path: string;
beforeEach(() => {
  path = join(mkdtempSync(join(work, "db-")), "stoa.db");
});

function open(synchronous = "FULL"): Database {
  const { $client: client } = openDatabase(path);
  client.run("CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL)");
  client.run(`PRAGMA synchronous = ${synchronous}`);
  return client;
}

function add(client: Database, count: number): void {
  const insert = client.prepare("INSERT INTO texts (text) VALUES (?)");
  for (let n = 0; n < count; n++) insert.run("x".repeat(1_000));
}

const countIn = (client: Database) =>
  client.query<{ count: number }, []>("SELECT count(*) AS count FROM texts WHERE length(text) = 1000").get()?.count;

const writeCalls = () => Number(/syscw: (\d+)/.exec(readFileSync("/proc/self/io", "utf8"))?.[1]);

/** What a crash would leave: SQLite then reads as much of the log as has valid checksums. */
function recovered<Result>(read: (client: Database) => Result): Result {
  for (const end of ["", "-wal"]) copyFileSync(path + end, `${path}.copy${end}`);
  const { $client: client } = openDatabase(`${path}.copy`);
  try {
    expect(client.query("PRAGMA integrity_check").values()).toEqual([["ok"]]);
    return read(client);
  } finally {
    client.close();
    rmSync(`${path}.copy`);
  }
}

test("the frames of a commit are written to the log with few system calls", () => {
  const client = open();
  const [logBytes, calls] = [statSync(`${path}-wal`).size, writeCalls()];
  client.transaction(() => add(client, 1_000))();
  const frames = (statSync(`${path}-wal`).size - logBytes) / FRAME_BYTES;
  expect(frames).toBeGreaterThan(200);
  expect(writeCalls() - calls).toBeLessThan(frames / 8);
  client.close();
});

test.each(["FULL", "NORMAL", "OFF"])(
  "once a commit has returned, others and a recovery read it (%s)",
  (synchronous) => {
    const client = open(synchronous);
    const { $client: reader } = openDatabase(path, { readonly: true });
    let expected = 0;
    for (const count of [1, 2, 40, 3, 500, 1]) {
      client.transaction(() => add(client, count))();
      expected += count;
      expect(countIn(reader)).toBe(expected);
      expect(recovered(countIn)).toBe(expected);
    }
    reader.close();
    client.close();
  },
);

test("a transaction that outgrows the cache and takes back a part leaves what it committed, and nothing when it fails", () => {
  const client = open("NORMAL");
  client.run("PRAGMA cache_size = 10");
  const { $client: reader } = openDatabase(path, { readonly: true });
  client.transaction(() => {
    add(client, 300);
    client.run("SAVEPOINT part");
    add(client, 300);
    client.run("UPDATE texts SET text = 'y'");
    expect(countIn(client)).toBe(0);
    expect(countIn(reader)).toBe(0);
    client.run("ROLLBACK TO part");
    add(client, 50);
  })();
  expect(countIn(reader)).toBe(350);
  expect(recovered(countIn)).toBe(350);

  const failing = client.transaction(() => {
    add(client, 400);
    throw new Error("taken back");
  });
  expect(failing).toThrow("taken back");
  add(client, 1);
  expect(countIn(reader)).toBe(351);
  expect(recovered(countIn)).toBe(351);
  client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  add(client, 1);
  expect(recovered(countIn)).toBe(352);
  reader.close();
  client.close();
});

test("frames of a transaction that was rolled back never replace those of another connection", () => {
  const client = open();
  client.run("PRAGMA cache_size = 10");
  const { $client: other } = openDatabase(path);
  add(client, 1);
  for (const rows of [60, 100, 200]) {
    // A rollback then reads no frame from the log, which would write the pending ones.
    client.run("PRAGMA wal_checkpoint(PASSIVE)");
    client.run("BEGIN");
    add(client, rows);
    client.run("ROLLBACK");
    other.transaction(() => add(other, 5))();
    add(client, 1);
  }
  expect(countIn(other)).toBe(19);
  expect(recovered(countIn)).toBe(19);
  other.close();
  client.close();
});

test("the commits of a process that is killed are in the log", async () => {
  open().close();
  const script = `
    import { openDatabase } from "${import.meta.dir}/../../../src/kernel/db/open.ts";
    const { $client: client } = openDatabase(process.argv[1]);
    client.run("PRAGMA synchronous = NORMAL");
    const insert = client.prepare("INSERT INTO texts (text) VALUES (?)");
    for (let n = 0; n < 100; n++) client.transaction(() => { for (let i = 0; i <= n % 5; i++) insert.run("x".repeat(1000)); })();
    client.run("BEGIN");
    insert.run("x".repeat(1000));
    process.kill(process.pid, "SIGKILL");`;
  await Bun.spawn([process.execPath, "-e", script, path], { stdio: ["ignore", "inherit", "inherit"] }).exited;
  const { $client: client } = openDatabase(path);
  expect(countIn(client)).toBe(300);
  client.close();
});
