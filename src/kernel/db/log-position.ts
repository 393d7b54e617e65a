import type { Db } from "./open.ts";
import { changing } from "./statements.ts";
import type { Unit } from "./writer.ts";

export type LogPosition = { logId: string; position: number; term: number };

type Reads = { prepare(sql: string): { get(): unknown } };

/** Null for a database without a log, and for one of a version before logs. */
export function logPosition(client: Reads): LogPosition | null {
  const table = client.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'log_position'").get();
  if (table === null) return null;
  const row = client.prepare("SELECT log_id AS logId, position, term FROM log_position").get();
  return row as LogPosition | null;
}

/** Whether the database has followed authenticated records; from then on it accepts no others. */
export function isSealed(client: Reads): boolean {
  return client.prepare("SELECT 1 FROM pragma_table_info('log_position') WHERE name = 'sealed'").get() !== null;
}

export function leaveLog(unit: Unit, db: Db): void {
  if (logPosition(db.$client) !== null) changing<[]>(db.$client, "DELETE FROM log_position").run(unit);
}
