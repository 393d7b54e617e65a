import { afterAll, expect, test } from "bun:test";
import { migrate, readMigrations } from "../../../src/kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../../../src/kernel/db/open.ts";
import { ERASED, NOT_THEIRS } from "./columns.ts";

const db = openDatabase(":memory:");
migrate(db, readMigrations(`${import.meta.dir}/../../../migrations`), 0);
afterAll(() => closeDatabase(db));

const SOUNDS_PERSONAL =
  /user|sender|identity|address|text|email|uploader|mention|body|detail|metadata|^data$|^message$|filename/;

test("[19] every column that sounds like a person is either erased, or told why it is not", () => {
  const columns = db.$client
    .query<{ table: string; name: string }, []>(
      `SELECT t.name AS "table", c.name AS name FROM pragma_table_list t JOIN pragma_table_info(t.name) c
       WHERE t.schema = 'main' AND t.type IN ('table', 'virtual') AND t.name NOT LIKE 'sqlite_%' AND t.name NOT LIKE 'message_search_%'`,
    )
    .all()
    .map(({ table, name }) => ({ column: `${table}.${name}`, name }));
  const known = new Set([...ERASED, ...Object.keys(NOT_THEIRS)]);
  const unknown = columns.filter(({ column, name }) => SOUNDS_PERSONAL.test(name) && !known.has(column));
  expect(unknown.map(({ column }) => column)).toEqual([]);
  // And the lists name nothing that is not there.
  const there = new Set(columns.map(({ column }) => column));
  expect([...known].filter((column) => !there.has(column))).toEqual([]);
});
