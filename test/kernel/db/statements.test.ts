import { afterAll, expect, test } from "bun:test";
import { eq, sql } from "drizzle-orm";
import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { closeDatabase, openDatabase } from "../../../src/kernel/db/open.ts";
import { changing, inserter, reading, rowsOf, run, updater } from "../../../src/kernel/db/statements.ts";
import { createWriter } from "../../../src/kernel/db/writer.ts";

const db = openDatabase(":memory:");
afterAll(() => closeDatabase(db));
const { write } = createWriter(db.$client, (error) => {
  throw error;
});

const notes = sqliteTable("notes", { id: integer("id").primaryKey(), body: text("body_text").notNull() });
const id = sql.placeholder("id");

test("a statement is compiled once, when it is first used, and changes rows only with a unit of work", async () => {
  let compiled = 0;
  const find = reading(() => {
    compiled++;
    return db.select().from(notes).where(eq(notes.id, id)).prepare();
  });
  const all = reading(() => db.$client.prepare<{ body: string }, []>("SELECT body_text AS body FROM notes"));
  const insert = inserter<typeof notes.$inferInsert>(db.$client, notes);
  const change = changing(() =>
    db
      .update(notes)
      .set({ body: sql`${sql.placeholder("body")}` })
      .where(eq(notes.id, id))
      .prepare(),
  );
  const remove = changing(() =>
    db.$client.prepare<{ body: string }, [number]>("DELETE FROM notes WHERE id = ? RETURNING body_text AS body"),
  );

  // Compiling any of them before the table is there would fail.
  expect(compiled).toBe(0);
  db.$client.run("CREATE TABLE notes (id INTEGER PRIMARY KEY, body_text TEXT NOT NULL)");

  expect(await write((unit) => insert(unit, { id: 1, body: "first" }))).toBe(1);
  expect(find.get({ id: 1 })).toEqual({ id: 1, body: "first" });
  await write((unit) => void change.run(unit, { id: 1, body: "second" }));
  expect(find.all({ id: 1 })).toEqual([{ id: 1, body: "second" }]);
  expect(compiled).toBe(1);
  await write((unit) => run(unit, db.insert(notes).values({ id: 2, body: "third" })));
  expect(all.all()).toEqual([{ body: "second" }, { body: "third" }]);
  expect(await write((unit) => remove.get(unit, 1)?.body)).toBe("second");
  expect(find.get({ id: 1 })).toBeUndefined();
});

test("no statement changes rows with a unit of work that is over", async () => {
  const { unit } = await write((unit) => ({ unit }));
  const insert = inserter<typeof notes.$inferInsert>(db.$client, notes);
  const clear = changing(() => db.delete(notes).prepare());
  const attempts = [
    () => insert(unit, { id: 9, body: "late" }),
    () => clear.run(unit),
    () => run(unit, db.insert(notes).values({ id: 9, body: "late" })),
  ];
  for (const attempt of attempts) expect(attempt).toThrow("this unit of work is over");
  expect(db.select().from(notes).where(eq(notes.id, 9)).all()).toEqual([]);
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
