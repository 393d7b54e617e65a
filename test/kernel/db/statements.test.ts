import { afterAll, expect, test } from "bun:test";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { closeDatabase, openDatabase } from "../../../src/kernel/db/open.ts";
import { changing, filteredBy, inserter, reading, rowsOf, updater } from "../../../src/kernel/db/statements.ts";
import { createWriter } from "../../../src/kernel/db/writer.ts";

const db = openDatabase(":memory:");
afterAll(() => closeDatabase(db));
const { write } = createWriter(db.$client, (error) => {
  throw error;
});

const notes = sqliteTable("notes", { id: integer("id").primaryKey(), body: text("body_text").notNull() });
type Note = typeof notes.$inferSelect;

test("a statement is compiled when it is first used, and changes rows only with a unit of work", async () => {
  const find = reading<Note, [number]>(db.$client, "SELECT id, body_text AS body FROM notes WHERE id = ?");
  const all = reading<{ body: string }, []>(db.$client, "SELECT body_text AS body FROM notes");
  const insert = inserter<Note>(db.$client, notes);
  const change = changing<[string, number]>(db.$client, "UPDATE notes SET body_text = ? WHERE id = ?");
  const remove = changing<[number], { body: string }>(
    db.$client,
    "DELETE FROM notes WHERE id = ? RETURNING body_text AS body",
  );

  // Compiling any of them before the table exists would fail.
  db.$client.run("CREATE TABLE notes (id INTEGER PRIMARY KEY, body_text TEXT NOT NULL)");

  expect(await write((unit) => insert(unit, { id: 1, body: "first" }))).toBe(1);
  expect(find.get(1)).toEqual({ id: 1, body: "first" });
  expect(await write((unit) => change.run(unit, "second", 1).changes)).toBe(1);
  expect(find.all(1)).toEqual([{ id: 1, body: "second" }]);
  await write((unit) => void insert(unit, { id: 2, body: "third" }));
  expect(all.all()).toEqual([{ body: "second" }, { body: "third" }]);
  expect(await write((unit) => remove.get(unit, 1)?.body)).toBe("second");
  expect(find.get(1)).toBeNull();
});

test("no statement changes rows with a unit of work that is over", async () => {
  const { unit } = await write((unit) => ({ unit }));
  const insert = inserter<Note>(db.$client, notes);
  const clear = changing<[]>(db.$client, "DELETE FROM notes");
  for (const attempt of [() => insert(unit, { id: 9, body: "late" }), () => clear.run(unit)]) {
    expect(attempt).toThrow("this unit of work is over");
  }
  expect(db.$client.query("SELECT id FROM notes").all()).toEqual([{ id: 2 }]);
});

test("a filter adds the conditions that apply, and declares one statement for each combination", () => {
  const declared: string[] = [];
  const filtered = filteredBy((conditions) => declared.push(conditions));
  expect(filtered({ "a = ?": undefined, "b IS NULL": false })).toEqual({ statement: 1, values: [] });
  expect(filtered({ "a = ?": "x", "b IS NULL": true, "c = ?": 0 })).toEqual({ statement: 2, values: ["x", 0] });
  expect(filtered({ "a = ?": "y", "b IS NULL": true, "c = ?": 1 })).toEqual({ statement: 2, values: ["y", 1] });
  expect(declared).toEqual(["", " AND a = ? AND b IS NULL AND c = ?"]);
});

test("booleans and JSON are written and read as the table declares them", async () => {
  const flags = sqliteTable("flags", {
    id: text("id").primaryKey(),
    isOn: integer("is_on", { mode: "boolean" }).notNull(),
    tags: text("tags", { mode: "json" }).$type<string[]>(),
  });
  db.$client.run("CREATE TABLE flags (id TEXT PRIMARY KEY, is_on INTEGER NOT NULL, tags TEXT) STRICT");
  const insert = inserter<typeof flags.$inferSelect>(db.$client, flags, "ON CONFLICT (id) DO NOTHING");
  const update = updater(db.$client, flags);
  const byId = rowsOf(db.$client, flags)<[string]>("WHERE id = ?");
  const all = rowsOf(db.$client, flags)<[]>("ORDER BY id");

  await write((unit) => {
    insert(unit, { id: "a", isOn: true, tags: ["x"] });
    insert(unit, { id: "a", isOn: false, tags: [] });
    insert(unit, { id: "b", isOn: false, tags: null });
  });
  expect(all.all()).toEqual([
    { id: "a", isOn: true, tags: ["x"] },
    { id: "b", isOn: false, tags: null },
  ]);

  await write((unit) => {
    update(unit, "a", { isOn: false });
    update(unit, "b", { tags: ["y", "z"] });
    update(unit, "b", {});
  });
  expect(byId.get("a")).toEqual({ id: "a", isOn: false, tags: ["x"] });
  expect(byId.get("b")).toEqual({ id: "b", isOn: false, tags: ["y", "z"] });
  expect(byId.get("c")).toBeUndefined();

  const { unit } = await write((unit) => ({ unit }));
  expect(() => update(unit, "a", { isOn: true })).toThrow("this unit of work is over");
  expect(byId.get("a")?.isOn).toBe(false);
});
