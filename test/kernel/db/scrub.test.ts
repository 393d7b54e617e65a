import { Database } from "bun:sqlite";
import { afterAll, expect, test } from "bun:test";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { scrubDatabase } from "../../../src/kernel/db/scrub.ts";

const folder = mkdtempSync(join(tmpdir(), "stoa-scrub-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const WORD = "heliotrope";
const ROWS = 3_000;

/** A database that was written without `secure_delete`, as a backup is: every eighth row was deleted. */
function careless(path: string): Database {
  const db = new Database(path, { create: true });
  db.run("PRAGMA journal_mode = WAL");
  db.run("PRAGMA synchronous = OFF");
  db.run("PRAGMA secure_delete = OFF");
  db.run("CREATE TABLE said (room TEXT, who TEXT, text TEXT, PRIMARY KEY (room, who)) STRICT, WITHOUT ROWID");
  const insert = db.query("INSERT INTO said VALUES (?, ?, ?)");
  // In no order, so that pages split and rows move.
  for (let n = 0; n < ROWS; n++) {
    const at = (n * 7919) % ROWS;
    insert.run(`room ${at}`, "bob", at % 8 === 0 ? `${WORD} ${at}` : `kept ${at}`);
  }
  db.run(`DELETE FROM said WHERE text LIKE '${WORD}%'`);
  db.run("PRAGMA wal_checkpoint(TRUNCATE)");
  return db;
}

test("traces of deleted rows in unallocated space and freeblocks are cleared, and nothing else", async () => {
  const path = join(folder, "careless.db");
  const db = careless(path);
  expect(readFileSync(path).includes(WORD)).toBe(true);
  const kept = db.query("SELECT * FROM said ORDER BY room").all();
  await scrubDatabase(db);
  expect(readFileSync(path).includes(WORD)).toBe(false);
  expect(db.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  expect(db.query("SELECT * FROM said ORDER BY room").all()).toEqual(kept);
  // Holes are still used.
  const insert = db.query("INSERT INTO said VALUES (?, ?, ?)");
  for (let n = 0; n < ROWS; n += 8) insert.run(`room ${n}`, "bob", `again ${n}`);
  expect(db.query("PRAGMA integrity_check").get()).toEqual({ integrity_check: "ok" });
  expect(db.query<{ n: number }, []>("SELECT count(*) AS n FROM said").get()?.n).toBe(ROWS);
  db.close();
});
