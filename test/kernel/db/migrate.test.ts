import { afterEach, beforeEach, expect, test } from "bun:test";
import { type Migration, MigrationRefused, migrate } from "../../../src/kernel/db/migrate.ts";
import { closeDatabase, type Db, openDatabase } from "../../../src/kernel/db/open.ts";

let db: Db;
beforeEach(() => {
  db = openDatabase(":memory:");
});
afterEach(() => closeDatabase(db));

const step = (name: string, sql: string): Migration => ({ name, sql, hash: Bun.hash(sql).toString() });
const first = step(
  "0001_first",
  `CREATE TABLE parent (id INTEGER PRIMARY KEY) STRICT;
   CREATE TABLE child (id INTEGER PRIMARY KEY, parent INTEGER REFERENCES parent (id) ON DELETE CASCADE) STRICT;`,
);
const rebuild = step(
  "0002_rebuild",
  `CREATE TABLE parent_new (id INTEGER PRIMARY KEY, name TEXT) STRICT;
   INSERT INTO parent_new (id) SELECT id FROM parent;
   DROP TABLE parent;
   ALTER TABLE parent_new RENAME TO parent;`,
);
const rows = (table: string) => db.$client.query(`SELECT * FROM ${table}`).all().length;
const foreignKeys = () => db.$client.query<{ foreign_keys: number }, []>("PRAGMA foreign_keys").get()?.foreign_keys;

test("each migration is applied once, in order", () => {
  expect(migrate(db, [first], 1)).toEqual(["0001_first"]);
  expect(migrate(db, [first, rebuild], 2)).toEqual(["0002_rebuild"]);
  expect(migrate(db, [first, rebuild], 3)).toEqual([]);
});

test("rebuilding a table does not delete its children, and foreign keys are on again afterwards", () => {
  migrate(db, [first], 1);
  db.$client.run("INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1);");
  migrate(db, [first, rebuild], 2);
  expect(rows("child")).toBe(1);
  expect(foreignKeys()).toBe(1);
});

test("a database with data is copied before a migration, a new one is not", () => {
  let copies = 0;
  migrate(db, [first], 1, () => copies++);
  expect(copies).toBe(0);
  migrate(db, [first, rebuild], 2, () => copies++);
  expect(copies).toBe(1);
});

test("a migration that fails changes nothing, and the error names it", () => {
  migrate(db, [first], 1);
  const broken = step("0002_broken", "CREATE TABLE extra (id INTEGER) STRICT; SELECT * FROM nowhere;");
  expect(() => migrate(db, [first, broken], 2)).toThrow("Migration 0002_broken failed: no such table: nowhere");
  expect(() => rows("extra")).toThrow();
  expect(foreignKeys()).toBe(1);
  expect(migrate(db, [first, rebuild], 3)).toEqual(["0002_rebuild"]);
});

test("an error that ends the transaction, as SQLite's for a full disk does, is the one that is reported", () => {
  const ended = step("0001_ended", "ROLLBACK; INSERT INTO nowhere VALUES (1)");
  expect(() => migrate(db, [ended], 1)).toThrow("Migration 0001_ended failed: no such table: nowhere");
  expect(foreignKeys()).toBe(1);
});

test("a migration that would orphan rows is refused", () => {
  migrate(db, [first], 1);
  db.$client.run("INSERT INTO parent VALUES (1); INSERT INTO child VALUES (1, 1);");
  const careless = step("0002_careless", "DELETE FROM parent;");
  expect(() => migrate(db, [first, careless], 2)).toThrow(MigrationRefused);
  expect(rows("parent")).toBe(1);
});

test("a database from a newer version is refused, and so is one whose history differs", () => {
  migrate(db, [first, rebuild], 1);
  expect(() => migrate(db, [first], 2)).toThrow(/newer Stoa/);
  expect(() => migrate(db, [first, { ...rebuild, hash: "other" }], 2)).toThrow(/differs/);
});
