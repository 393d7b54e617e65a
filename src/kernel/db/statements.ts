import type { Database, SQLQueryBindings } from "bun:sqlite";
import { getTableColumns } from "drizzle-orm";
import { getTableConfig, type SQLiteTable } from "drizzle-orm/sqlite-core";
import type { Unit } from "./writer.ts";

/*
 * Chat writes its statements by hand, since they run for every message and cost a third of the query builder's; the
 * names of columns still come from the one description of the table.
 */

/** `column AS property, …` of a table. */
export function columnsOf(table: SQLiteTable, alias?: string): string {
  const prefix = alias === undefined ? "" : `${alias}.`;
  return Object.entries(getTableColumns(table))
    .map(([property, column]) => `${prefix}${column.name} AS ${property}`)
    .join(", ");
}

/** Inserts whole rows. */
export function inserter<Row extends object>(client: Database, table: SQLiteTable): (unit: Unit, row: Row) => number {
  const entries = Object.entries(getTableColumns(table));
  const properties = entries.map(([property]) => property as keyof Row);
  const statement = client.prepare(
    `INSERT INTO ${getTableConfig(table).name} (${entries.map(([, column]) => column.name).join(", ")})
     VALUES (${entries.map(() => "?").join(", ")})`,
  );
  return (unit, row) => {
    unit.requireRunning();
    return Number(
      statement.run(...properties.map((property) => (row[property] ?? null) as SQLQueryBindings)).lastInsertRowid,
    );
  };
}
