import { afterAll, expect, test } from "bun:test";
import { Glob } from "bun";
import { getTableConfig, SQLiteTable } from "drizzle-orm/sqlite-core";
import { migrate, readMigrations } from "../../src/kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../../src/kernel/db/open.ts";

const root = `${import.meta.dir}/../..`;
const db = openDatabase(":memory:");
migrate(db, readMigrations(`${root}/migrations`), 0);
afterAll(() => closeDatabase(db));

const tables = new Map<string, SQLiteTable>();
for (const path of new Glob("src/**/*.{table,store}.ts").scanSync(root)) {
  for (const value of Object.values(await import(`${root}/${path}`))) {
    if (value instanceof SQLiteTable) tables.set(getTableConfig(value).name, value);
  }
}

type Column = { name: string; type: string; notnull: number; pk: number };

test("every declared table agrees with the migrated database, column by column", () => {
  expect(tables.size).toBeGreaterThan(3);
  for (const [name, table] of tables) {
    const actual = db.$client.query<Column, []>(`PRAGMA table_info(${name})`).all();
    const declared = getTableConfig(table);
    const keys = new Set([
      ...declared.columns.filter((column) => column.primary).map((column) => column.name),
      ...declared.primaryKeys.flatMap((key) => key.columns.map((column) => column.name)),
    ]);
    expect({
      name,
      columns: declared.columns
        .map(
          (column) =>
            `${column.name} ${column.getSQLType()}${column.notNull || keys.has(column.name) ? " not null" : ""}`,
        )
        .sort(),
    }).toEqual({
      name,
      columns: actual
        .map((column) => `${column.name} ${column.type.toLowerCase()}${column.notnull || column.pk ? " not null" : ""}`)
        .sort(),
    });
  }
});

test("every table is STRICT", () => {
  const loose = db.$client
    .query<{ name: string; strict: number; type: string }, []>("PRAGMA table_list")
    .all()
    .filter(({ type, name, strict }) => type === "table" && !name.startsWith("sqlite_") && strict === 0)
    .map(({ name }) => name);
  expect(loose).toEqual([]);
});
