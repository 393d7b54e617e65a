import { afterAll, expect, test } from "bun:test";
import { eq, sql } from "drizzle-orm";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { closeDatabase, openDatabase } from "../../src/kernel/db/open.ts";

const db = openDatabase(":memory:");
afterAll(() => closeDatabase(db));

const notes = sqliteTable("notes", { id: integer("id").primaryKey(), body: text("body").notNull() });
const id = sql.placeholder("id");

test("a statement is compiled when it is used, once, and works like any other", () => {
  const insert = db
    .insert(notes)
    .values({ id, body: sql.placeholder("body") })
    .prepare();
  const find = db.select().from(notes).where(eq(notes.id, id)).prepare();
  const change = db
    .update(notes)
    .set({ body: sql`${sql.placeholder("body")}` })
    .where(eq(notes.id, id))
    .prepare();
  const remove = db.delete(notes).where(eq(notes.id, id)).prepare();

  // Compiling any of them before the table is there would fail.
  expect(() => find.get({ id: 1 })).toThrow("no such table");
  db.$client.run("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL)");

  insert.run({ id: 1, body: "first" });
  expect(find.get({ id: 1 })).toEqual({ id: 1, body: "first" });
  change.run({ id: 1, body: "second" });
  expect(find.all({ id: 1 })).toEqual([{ id: 1, body: "second" }]);
  expect(find.values({ id: 1 })).toEqual([[1, "second"]]);
  remove.run({ id: 1 });
  expect(find.get({ id: 1 })).toBeUndefined();
});

test("opening another database does not wrap statements twice", () => {
  const other = openDatabase(":memory:");
  other.$client.run("CREATE TABLE notes (id INTEGER PRIMARY KEY, body TEXT NOT NULL)");
  expect(other.select().from(notes).prepare().all()).toEqual([]);
  closeDatabase(other);
});
