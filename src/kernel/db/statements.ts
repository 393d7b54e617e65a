import type { Database, SQLQueryBindings } from "bun:sqlite";
import { getTableColumns } from "drizzle-orm";
import { getTableConfig, type SQLiteTable } from "drizzle-orm/sqlite-core";
import type { Unit } from "./writer.ts";

/*
 * How stores hold SQL. The columns come from the one description of the table (`*.table.ts`) in either dialect:
 *
 * - Prepared text where a statement runs for every message, or aggregates, or names an index: chat, and the figures
 *   of observability. It costs a third of what the query builder does.
 * - drizzle everywhere else: records of projects, rooms, streams and webhooks, which are changed field by field.
 *
 * In either, a statement is declared with `reading` or `changing`, and compiled when it is used for the first time:
 * to compile all of them took a fifth of a start. What changes rows takes the unit of work that it belongs to.
 */

// biome-ignore lint/suspicious/noExplicitAny: only `any` accepts the parameters of every statement.
type Call = (...values: any[]) => unknown;
/** What a prepared statement of either dialect can do. */
type Prepared = { get: Call; all: Call; run: Call };

type Reading<S extends Prepared> = Pick<S, "get" | "all">;
type Changing<S extends Prepared> = {
  [K in keyof Prepared]: (unit: Unit, ...values: Parameters<S[K]>) => ReturnType<S[K]>;
};

/** A statement that is compiled when it is first used. */
export function reading<S extends Prepared>(prepare: () => S): Reading<S> {
  let made: S | undefined;
  const ready = () => {
    made ??= prepare();
    return made;
  };
  return { get: (...values) => ready().get(...values), all: (...values) => ready().all(...values) } as Reading<S>;
}

/** The same for a statement that changes rows. */
export function changing<S extends Prepared>(prepare: () => S): Changing<S> {
  let made: S | undefined;
  const ready = (unit: Unit) => {
    unit.requireRunning();
    made ??= prepare();
    return made;
  };
  const done = <T>(unit: Unit, result: T): T => {
    unit.changed();
    return result;
  };
  return {
    get: (unit, ...values) => done(unit, ready(unit).get(...values)),
    all: (unit, ...values) => done(unit, ready(unit).all(...values)),
    run: (unit, ...values) => done(unit, ready(unit).run(...values)),
  } as Changing<S>;
}

/** Runs a change whose columns are known only when it is made. */
export function run(unit: Unit, change: { run(): unknown }): void {
  unit.requireRunning();
  change.run();
  unit.changed();
}

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
  const statement = changing(() =>
    client.prepare<unknown, SQLQueryBindings[]>(
      `INSERT INTO ${getTableConfig(table).name} (${entries.map(([, column]) => column.name).join(", ")})
       VALUES (${entries.map(() => "?").join(", ")})`,
    ),
  );
  return (unit, row) => {
    const values = properties.map((property) => (row[property] ?? null) as SQLQueryBindings);
    return Number(statement.run(unit, ...values).lastInsertRowid);
  };
}
