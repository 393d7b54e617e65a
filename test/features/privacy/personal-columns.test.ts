import { afterAll, expect, test } from "bun:test";
import { migrate, readMigrations } from "../../../src/kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../../../src/kernel/db/open.ts";
import { personalColumns } from "../../../src/services.ts";
import { COLUMNS_WITHOUT_USERS, TABLES_WITHOUT_USERS } from "./columns-without-users.ts";

const db = openDatabase(":memory:");
migrate(db, readMigrations(`${import.meta.dir}/../../../migrations`), 0);
afterAll(() => closeDatabase(db));

const columns = db.$client
  .query<{ table: string; name: string; type: string }, []>(
    `SELECT t.name AS "table", c.name AS name, upper(c.type) AS type
     FROM pragma_table_list t JOIN pragma_table_info(t.name) c
     WHERE t.schema = 'main' AND t.type IN ('table', 'virtual')
       AND t.name NOT LIKE 'sqlite_%' AND t.name NOT LIKE 'message_search_%'`,
  )
  .all();
const isNumber = (type: string) => type === "INTEGER" || type === "REAL";
const claimed = new Set(personalColumns.flatMap(({ userIds, content }) => [...Object.keys(userIds), ...content]));

test("[19] every column that can hold a user id belongs to a feature's personal data, or says why it holds none", () => {
  const unknown = columns.filter(
    ({ table, name, type }) =>
      !isNumber(type) &&
      !claimed.has(`${table}.${name}`) &&
      !(table in TABLES_WITHOUT_USERS) &&
      !(name in COLUMNS_WITHOUT_USERS) &&
      !(`${table}.${name}` in COLUMNS_WITHOUT_USERS),
  );
  expect(unknown.map(({ table, name }) => `${table}.${name}`)).toEqual([]);
});

test("[19] the personal data of features and the exceptions name only columns that exist", () => {
  const known = new Set(columns.flatMap(({ table, name }) => [table, name, `${table}.${name}`]));
  const named = [...claimed, ...Object.keys(TABLES_WITHOUT_USERS), ...Object.keys(COLUMNS_WITHOUT_USERS)];
  expect(named.filter((name) => !known.has(name))).toEqual([]);
});

test("[19] a column is either personal data or an exception, not both", () => {
  const excepted = [...claimed].filter((column) => {
    const [table = "", name = ""] = column.split(".");
    return table in TABLES_WITHOUT_USERS || name in COLUMNS_WITHOUT_USERS || column in COLUMNS_WITHOUT_USERS;
  });
  expect(excepted).toEqual([]);
});

test("[19] every personal column can be queried for the user ids of one project and environment", () => {
  for (const { userIds } of personalColumns) {
    for (const [column, join] of Object.entries(userIds)) {
      const text = `SELECT ${column} FROM ${column.split(".")[0]} ${join} WHERE project_id = ? AND environment = ?`;
      expect(db.$client.query(text).all("none", "DEVELOPMENT")).toEqual([]);
    }
  }
});
