// needs: gcc
import { Database } from "bun:sqlite";
import { afterAll, beforeEach, expect, test } from "bun:test";
import { closeSync, copyFileSync, mkdtempSync, openSync, readFileSync, rmSync, statSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import {
  acceptForeignPages,
  checksumIn,
  hasChecksums,
  isShared,
  pageChecksum,
} from "../../../src/kernel/db/checksums.ts";
import { closeDatabase, openDatabase } from "../../../src/kernel/db/open.ts";
import { scrubDatabase } from "../../../src/kernel/db/scrub.ts";
import { rewriteDatabase, rewriteSmallDatabase } from "../../../src/kernel/db/shrink.ts";
import { copyDatabase } from "../../../src/ops/backup/make-backup.ts";

const PAGE_BYTES = 4_096;
const work = mkdtempSync(join(tmpdir(), "stoa-checksums-"));
afterAll(() => rmSync(work, { recursive: true, force: true }));

let path: string;
beforeEach(() => {
  path = join(mkdtempSync(join(work, "db-")), "stoa.db");
});

const textOf = (n: number) => `${n} ${"x".repeat(300)} needle${n} ${"x".repeat(n % 7 === 0 ? 20_000 : 100)}`;

function fill({ $client: client }: { $client: Database }, from = 0, count = 200): void {
  client.run("CREATE TABLE IF NOT EXISTS texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL)");
  const insert = client.prepare("INSERT INTO texts VALUES (?, ?)");
  client.transaction(() => {
    for (let n = from; n < from + count; n++) insert.run(n, textOf(n));
  })();
}

const readAll = (client: Database) =>
  client
    .query<{ text: string }, []>("SELECT text FROM texts ORDER BY id")
    .all()
    .map(({ text }) => text);
const expected = (count = 200) => Array.from({ length: count }, (_, n) => textOf(n));

/** Changes one bit of the last copy of a text in a file. */
function flip(file: string, text: string): void {
  const at = readFileSync(file).lastIndexOf(text);
  expect(at).toBeGreaterThan(0);
  const fd = openSync(file, "r+");
  writeSync(fd, Buffer.from([text.charCodeAt(0) ^ 1]), 0, 1, at);
  closeSync(fd);
}

/** The pages of a file whose checksum is not that of their content. */
function damagedPages(file: string): number[] {
  const bytes = readFileSync(file);
  const pages = Array.from({ length: bytes.length / PAGE_BYTES }, (_, n) => n);
  return pages.filter((n) => {
    const page = Buffer.from(new Uint8Array(bytes.subarray(n * PAGE_BYTES, (n + 1) * PAGE_BYTES)).buffer);
    return !checksumIn(page).equals(pageChecksum(page));
  });
}

const failure = (work: () => unknown): string => {
  try {
    work();
    return "none";
  } catch (error) {
    const { code, errcode } = error as { code?: string; errcode?: number };
    return String(errcode ?? code);
  }
};

/** A database as an earlier version made it. */
function withoutChecksums(): void {
  const client = new Database(path, { create: true });
  client.run("PRAGMA journal_mode = WAL");
  fill({ $client: client });
  client.close();
}

test("one flipped bit in a stored text is an error, and other texts are served", () => {
  const db = openDatabase(path);
  fill(db);
  closeDatabase(db);
  expect(damagedPages(path)).toEqual([]);
  for (const text of ["needle101 ", "needle140 "]) {
    const copy = `${path}.${text.trim()}`;
    copyFileSync(path, copy);
    flip(copy, text);
    const { $client: client } = openDatabase(copy);
    const read = client.query<{ text: string }, [number]>("SELECT text FROM texts WHERE id = ?");
    expect(failure(() => read.get(Number(text.slice(6))))).toBe("SQLITE_CORRUPT");
    expect(read.get(3)?.text).toBe(textOf(3));
    client.close();
    const recording = new DatabaseSync(copy);
    expect(failure(() => recording.prepare("SELECT * FROM texts").all())).toBe("11");
    recording.close();
  }
});

test("a flipped bit in the middle of a long text is an error", () => {
  const db = openDatabase(path);
  db.$client.run("CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT NOT NULL)");
  db.$client.run("INSERT INTO texts VALUES (1, ?)", [`${"x".repeat(100_000)}needle${"x".repeat(100_000)}`]);
  closeDatabase(db);
  flip(path, "needle");
  const { $client: client } = openDatabase(path);
  expect(failure(() => readAll(client))).toBe("SQLITE_CORRUPT");
  client.close();
});

test("one flipped bit in the write-ahead log is an error, and does not reach the database", () => {
  const db = openDatabase(path);
  fill(db);
  db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  fill(db, 200);
  const { $client: reader } = openDatabase(path, { readonly: true });
  expect(readAll(reader)).toEqual(expected(400));
  flip(`${path}-wal`, "needle333 ");
  reader.run("PRAGMA shrink_memory");
  expect(failure(() => readAll(reader))).toBe("SQLITE_CORRUPT");
  expect(failure(() => db.$client.query("PRAGMA wal_checkpoint(PASSIVE)").all())).toBe("SQLITE_CORRUPT");
  expect(readFileSync(path).includes("oeedle333")).toBe(false);
  reader.close();
});

test("a transaction larger than the cache, which overwrites its own pages in the log, reads what it wrote", () => {
  const db = openDatabase(path);
  db.$client.run("PRAGMA cache_size = 10");
  fill(db, 0, 10);
  db.$client.transaction(() => {
    for (let round = 0; round < 5; round++) {
      db.$client.run("DELETE FROM texts");
      const insert = db.$client.prepare("INSERT INTO texts VALUES (?, ?)");
      for (let n = 0; n < 300; n++) insert.run(n, textOf(n));
      expect(readAll(db.$client)).toEqual(expected(300));
    }
  })();
  const { $client: reader } = openDatabase(path, { readonly: true });
  expect(readAll(reader)).toEqual(expected(300));
  reader.close();
  closeDatabase(db);
  expect(damagedPages(path)).toEqual([]);
});

test("a copy larger than the cache has checksums too", () => {
  const db = openDatabase(path);
  fill(db, 0, 12_000);
  const copy = `${path}.copy`;
  copyDatabase(path, copy);
  closeDatabase(db);
  expect(statSync(copy).size).toBeGreaterThan(30_000_000);
  expect(damagedPages(copy)).toEqual([]);
});

test("a file of an earlier version is used as it is until it is rewritten", () => {
  withoutChecksums();
  const db = openDatabase(path);
  expect(hasChecksums(db.$client)).toBe(false);
  fill(db, 200, 10);
  expect(readAll(db.$client)).toEqual(expected(210));
  const { $client: other } = openDatabase(path);
  expect(readAll(other)).toEqual(expected(210));
  rewriteSmallDatabase(db.$client);
  expect(hasChecksums(db.$client)).toBe(true);
  fill({ $client: other }, 210, 10);
  expect(readAll(db.$client)).toEqual(expected(220));
  other.close();
  closeDatabase(db);
  expect(damagedPages(path)).toEqual([]);
});

test("a file whose pages are in use by a reader gets its checksums at a later start", () => {
  withoutChecksums();
  const db = openDatabase(path);
  db.$client.run("PRAGMA busy_timeout = 0");
  const { $client: reader } = openDatabase(path, { readonly: true });
  reader.run("BEGIN");
  expect(readAll(reader)).toEqual(expected());
  rewriteDatabase(db.$client);
  expect(hasChecksums(db.$client)).toBe(false);
  reader.run("COMMIT");
  reader.close();
  rewriteDatabase(db.$client);
  expect(hasChecksums(db.$client)).toBe(true);
  closeDatabase(db);
  expect(damagedPages(path)).toEqual([]);
});

test("overwriting deleted content keeps the checksums, and does not hide damage", async () => {
  const db = openDatabase(path);
  fill(db, 0, 400);
  db.$client.run("PRAGMA secure_delete = OFF");
  db.$client.run("DELETE FROM texts WHERE id % 2 = 0");
  db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  flip(path, "needle333 ");
  const before = damagedPages(path);
  expect(before).toHaveLength(1);
  await scrubDatabase(db.$client);
  expect(readFileSync(path).includes("needle332 ")).toBe(false);
  expect(damagedPages(path)).toEqual(before);
  db.$client.close();
});

test("a build without the checksum layer writes pages without checksums, and the file no longer claims to have them", async () => {
  const db = openDatabase(path);
  fill(db);
  closeDatabase(db);
  const script = `Object.defineProperty(process, "platform", { value: "darwin" });
    const { openDatabase, closeDatabase } = await import("${import.meta.dir}/../../../src/kernel/db/open.ts");
    const db = openDatabase(process.argv[1]);
    db.$client.run("UPDATE texts SET text = 'written without' WHERE id = 5");
    closeDatabase(db);`;
  expect(
    await Bun.spawn([process.execPath, "-e", script, path], { stdio: ["ignore", "inherit", "inherit"] }).exited,
  ).toBe(0);
  expect(damagedPages(path).length).toBeGreaterThan(0);
  const again = openDatabase(path);
  expect(hasChecksums(again.$client)).toBe(false);
  expect(readAll(again.$client)[5]).toBe("written without");
  rewriteSmallDatabase(again.$client);
  expect(hasChecksums(again.$client)).toBe(true);
  closeDatabase(again);
  expect(damagedPages(path)).toEqual([]);
});

/** Runs code in another process, which has no layer unless it opens the database by `openDatabase`. */
async function elsewhere(code: string): Promise<string> {
  const script = `import { Database } from "bun:sqlite"; const path = ${JSON.stringify(path)}; ${code}`;
  const child = Bun.spawn([process.execPath, "-e", script], {
    cwd: import.meta.dir,
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [out, exitCode] = await Promise.all([new Response(child.stdout).text(), child.exited]);
  expect(exitCode).toBe(0);
  return out.trim();
}

test("pages that another program moves from the log into the database are served, and sealed when they change", async () => {
  const db = openDatabase(path);
  fill(db, 0, 100);
  db.$client.run("PRAGMA wal_checkpoint(TRUNCATE)");
  fill(db, 100, 100);
  db.$client.run("UPDATE texts SET text = text || '' WHERE id < 100");
  await elsewhere(`const client = new Database(path); client.query("SELECT count(*) FROM texts").get();
    client.run("PRAGMA wal_checkpoint(TRUNCATE)"); client.close();`);
  expect(damagedPages(path).length).toBeGreaterThan(10);
  const other = openDatabase(path);
  expect(readAll(other.$client)).toEqual(expected());
  expect([hasChecksums(other.$client), acceptForeignPages(other.$client)]).toEqual([true, false]);
  other.$client.close();
  rewriteDatabase(db.$client);
  closeDatabase(db);
  expect(damagedPages(path)).toEqual([]);
  flip(path, "needle150");
  const damaged = openDatabase(path);
  expect(failure(() => readAll(damaged.$client))).toBe("SQLITE_CORRUPT");
  damaged.$client.close();
});

test("a page whose content and checksum the disk has lost is an error", () => {
  const db = openDatabase(path);
  fill(db);
  closeDatabase(db);
  const at = Math.floor(readFileSync(path).lastIndexOf("needle100") / PAGE_BYTES) * PAGE_BYTES;
  const fd = openSync(path, "r+");
  writeSync(fd, Buffer.alloc(PAGE_BYTES), 0, PAGE_BYTES, at);
  closeSync(fd);
  const again = openDatabase(path);
  expect(failure(() => readAll(again.$client))).toBe("SQLITE_CORRUPT");
  again.$client.close();
});

test("when another program writes to the file, its pages are not verified until checksums are requested again", async () => {
  const db = openDatabase(path);
  fill(db);
  closeDatabase(db);
  // In another process too, as trust lasts for the whole process.
  // It is killed because Bun would empty the log when it closes the database, unlike SQLite.
  const foreign = `const { Database } = require("bun:sqlite");
    new Database(process.argv[1]).run(process.argv[2]);
    process.kill(process.pid, "SIGKILL");`;
  const said = await elsewhere(`
    const { acceptForeignPages } = await import("../../../src/kernel/db/checksums.ts");
    const { closeDatabase, openDatabase } = await import("../../../src/kernel/db/open.ts");
    const foreign = (sql) => Bun.spawnSync([process.execPath, "-e", ${JSON.stringify(foreign)}, path, sql]);
    const db = openDatabase(path);
    db.$client.run("UPDATE texts SET text = 'own' WHERE id = 1");
    const before = acceptForeignPages(db.$client);
    foreign("CREATE TABLE _litestream_seq (id INTEGER PRIMARY KEY, seq INTEGER)");
    foreign("UPDATE texts SET text = 'foreign' WHERE id = 150");
    const after = acceptForeignPages(db.$client);
    foreign("PRAGMA wal_checkpoint(PASSIVE)");
    const { texts } = db.$client.query("SELECT group_concat(text) AS texts FROM texts WHERE id IN (1, 150)").get();
    console.log(before, after, texts);
    closeDatabase(db);`);
  expect(said).toBe("false true own,foreign");
  const again = openDatabase(path);
  expect([hasChecksums(again.$client), isShared(again.$client)]).toEqual([false, true]);
  expect(readAll(again.$client)[150]).toBe("foreign");
  rewriteSmallDatabase(again.$client);
  expect(isShared(again.$client)).toBe(true);
  rewriteDatabase(again.$client);
  expect(hasChecksums(again.$client)).toBe(true);
  closeDatabase(again);
  expect(damagedPages(path)).toEqual([]);
});
