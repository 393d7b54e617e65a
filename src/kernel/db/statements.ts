import type { Changes, Database, SQLQueryBindings, Statement } from "bun:sqlite";
import { type Column, getTableColumns, getTableName } from "drizzle-orm";
import { type SQLiteTable, text } from "drizzle-orm/sqlite-core";
import type { Environment } from "../../protocol/enums.ts";
import type { Unit } from "./writer.ts";

/*
 * Stores define SQL as prepared text. The columns come from the one description of the table in drizzle's terms, which
 * is also the source of the row types. A statement is compiled when it is used for the first time, because compiling
 * all of them takes a fifth of a start. Every change has the unit of work as a parameter.
 */

/** The project and environment that own a row. */
export const tenantColumns = {
  projectId: text("project_id").notNull(),
  environment: text("environment").$type<Environment>().notNull(),
};

export function reading<Row, Values extends SQLQueryBindings[]>(client: Database, sql: string) {
  const statement = compiledOnce<Row>(client, sql);
  return {
    get: (...values: Values): Row | null => statement().get(...values),
    all: (...values: Values): Row[] => statement().all(...values),
  };
}

/** `Row` is the type of the rows of a `RETURNING` clause. */
export function changing<Values extends SQLQueryBindings[], Row = unknown>(client: Database, sql: string) {
  const statement = compiledOnce<Row>(client, sql);
  const begin = (unit: Unit) => {
    unit.requireRunning();
    return statement();
  };
  const end = <Result>(unit: Unit, result: Result): Result => {
    unit.changed();
    return result;
  };
  return {
    get: (unit: Unit, ...values: Values): Row | null => end(unit, begin(unit).get(...values)),
    all: (unit: Unit, ...values: Values): Row[] => end(unit, begin(unit).all(...values)),
    run: (unit: Unit, ...values: Values): Changes => end(unit, begin(unit).run(...values)),
  };
}

function compiledOnce<Row>(client: Database, sql: string): () => Statement<Row, SQLQueryBindings[]> {
  let compiled: Statement<Row, SQLQueryBindings[]> | undefined;
  return () => {
    compiled ??= client.prepare<Row, SQLQueryBindings[]>(sql);
    return compiled;
  };
}

/** `column AS property, …` of a table. */
export function columnsOf(table: SQLiteTable, alias?: string): string {
  const prefix = alias === undefined ? "" : `${alias}.`;
  return Object.entries(getTableColumns(table))
    .map(([property, column]) => `${prefix}${column.name} AS ${property}`)
    .join(", ");
}

type RowOf<Table extends SQLiteTable> = Table["$inferSelect"];

/**
 * Declares statements that read whole rows of a table. `rest` is the SQL text after `FROM table`. Booleans and JSON,
 * which SQLite stores as numbers and text, are converted to the types of the table's description.
 */
export function rowsOf<Table extends SQLiteTable>(client: Database, table: Table) {
  const encoded = Object.entries(getTableColumns(table)).filter(([, { dataType }]) => /boolean|json/.test(dataType));
  const decode = (row: Record<string, unknown>): RowOf<Table> => {
    for (const [property, column] of encoded) {
      if (row[property] !== null) row[property] = column.mapFromDriverValue(row[property]);
    }
    return row;
  };
  return <Values extends SQLQueryBindings[]>(rest: string) => {
    const statement = reading<Record<string, unknown>, Values>(
      client,
      `SELECT ${columnsOf(table)} FROM ${getTableName(table)} ${rest}`,
    );
    return {
      get(...values: Values): RowOf<Table> | undefined {
        const row = statement.get(...values);
        return row ? decode(row) : undefined;
      },
      all: (...values: Values): RowOf<Table>[] => statement.all(...values).map(decode),
    };
  };
}

type FilterValue = string | number | boolean | undefined;

/**
 * Declares one statement for each combination of optional conditions, because SQLite would not use the right index for
 * a statement that contains them all. `declare` gets the conditions as SQL text that begins with `AND`, or is empty.
 */
export function filteredBy<Statement>(declare: (conditions: string) => Statement) {
  const statements = new Map<string, Statement>();
  /**
   * The keys of `filters` are conditions in SQL. A condition without a placeholder applies if its value is true, and one
   * with a placeholder if its value is defined.
   */
  return (filters: Record<string, FilterValue>): { statement: Statement; values: (string | number)[] } => {
    let conditions = "";
    const values: (string | number)[] = [];
    for (const [condition, value] of Object.entries(filters)) {
      if (value === undefined || value === false) continue;
      conditions += ` AND ${condition}`;
      if (value !== true) values.push(value);
    }
    const statement = statements.get(conditions) ?? declare(conditions);
    statements.set(conditions, statement);
    return { statement, values };
  };
}

function encode(column: Column, value: unknown): SQLQueryBindings {
  return (value === null || value === undefined ? null : column.mapToDriverValue(value)) as SQLQueryBindings;
}

/** Inserts whole rows; `onConflict` is the `ON CONFLICT …` clause, if any. */
export function inserter<Row extends object>(
  client: Database,
  table: SQLiteTable,
  onConflict = "",
): (unit: Unit, row: Row) => number {
  const entries = Object.entries(getTableColumns(table)) as [keyof Row, Column][];
  const statement = changing<SQLQueryBindings[]>(
    client,
    `INSERT INTO ${getTableName(table)} (${entries.map(([, column]) => column.name).join(", ")})
     VALUES (${entries.map(() => "?").join(", ")}) ${onConflict}`,
  );
  return (unit, row) => {
    const values = entries.map(([property, column]) => encode(column, row[property]));
    return Number(statement.run(unit, ...values).lastInsertRowid);
  };
}

/** Updates the columns in `change` of the row with this `id`. */
export function updater<Table extends SQLiteTable>(client: Database, table: Table) {
  const columns = Object.entries(getTableColumns(table));
  return (unit: Unit, id: string, change: Partial<RowOf<Table>>): void => {
    const changes = change as Record<string, unknown>;
    const changed = columns.filter(([property]) => changes[property] !== undefined);
    if (changed.length === 0) return;
    unit.requireRunning();
    // `query` keeps the compiled statement, one for every set of columns.
    client
      .query(
        `UPDATE ${getTableName(table)} SET ${changed.map(([, { name }]) => `${name} = ?`).join(", ")} WHERE id = ?`,
      )
      .run(...changed.map(([property, column]) => encode(column, changes[property])), id);
    unit.changed();
  };
}
