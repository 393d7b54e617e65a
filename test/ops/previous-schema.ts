/**
 * Makes the database of an earlier version: its schema comes from its migrations, its rows from a database that the
 * product has filled, as far as tables and columns existed then.
 */
import { Database } from "bun:sqlite";
import { type Migration, migrate } from "../../src/kernel/db/migrate.ts";
import { closeDatabase, openDatabase } from "../../src/kernel/db/open.ts";

export type Counts = Record<string, number>;

const CREATED_AT = Date.parse("2026-01-01T00:00:00Z");

/** Writes `target` as the version with only `migrations` would have; returns the number of rows of each table. */
export function makePreviousDatabase(filled: string, target: string, migrations: Migration[]): Counts {
  const db = openDatabase(target);
  const { $client: client } = db;
  migrate(db, migrations, CREATED_AT);
  client.run("PRAGMA foreign_keys = OFF");
  client.run("ATTACH ? AS today", [filled]);
  const counts: Counts = {};
  for (const table of tablesOf(client, "main")) {
    if (!tablesOf(client, "today").includes(table)) continue;
    const kept = columnsOf(client, "main", table).filter((name) => columnsOf(client, "today", table).includes(name));
    const list = kept.map((name) => `"${name}"`).join(", ");
    client.run(`INSERT INTO main."${table}" (${list}) SELECT ${list} FROM today."${table}"`);
    counts[table] = countOf(client, table);
  }
  client.run("DETACH today");
  closeDatabase(db);
  return counts;
}

export function countRows(path: string, tables: readonly string[]): Counts {
  const client = new Database(path, { readonly: true });
  try {
    return Object.fromEntries(tables.map((table) => [table, countOf(client, table)]));
  } finally {
    client.close();
  }
}

/** Leaves out the tables of search indexes, which are rebuilt from the messages. */
function tablesOf(client: Database, schema: string): string[] {
  return client
    .query<{ name: string }, []>(`SELECT name FROM ${schema}.sqlite_schema WHERE type = 'table' ORDER BY name`)
    .all()
    .map(({ name }) => name)
    .filter((name) => !/^(sqlite_|schema_migrations|message_search)/.test(name));
}

function columnsOf(client: Database, schema: string, table: string): string[] {
  return client
    .query<{ name: string }, []>(`SELECT name FROM ${schema}.pragma_table_info('${table}')`)
    .all()
    .map(({ name }) => name);
}

function countOf(client: Database, table: string): number {
  return client.query<{ n: number }, []>(`SELECT count(*) AS n FROM "${table}"`).get()?.n ?? 0;
}
