import { blob, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";

export const flightRecords = sqliteTable("rtc_flights", {
  id: text("id").primaryKey(),
  connection: text("connection").notNull(),
  reason: text("reason").notNull(),
  takenAt: integer("taken_at").notNull(),
  dump: blob("dump").$type<Uint8Array>().notNull(),
});

type FlightRecordRow = typeof flightRecords.$inferSelect;
/** A row without the dump itself. */
export type FlightRecordEntry = Omit<FlightRecordRow, "dump"> & { bytes: number };

export function flightRecordStore({ $client: client }: Db) {
  const insert = inserter<FlightRecordRow>(client, flightRecords);
  const ofConnection = reading<FlightRecordEntry, [string]>(
    client,
    `SELECT id, connection, reason, taken_at AS takenAt, length(dump) AS bytes FROM rtc_flights
       WHERE connection = ? ORDER BY taken_at DESC, id DESC`,
  );
  const one = reading<FlightRecordRow, [string, string]>(
    client,
    `SELECT ${columnsOf(flightRecords)} FROM rtc_flights WHERE connection = ? AND id = ?`,
  );
  const removeOldest = changing<[string, number]>(
    client,
    `DELETE FROM rtc_flights WHERE connection = ?1 AND id NOT IN
       (SELECT id FROM rtc_flights WHERE connection = ?1 ORDER BY taken_at DESC, id DESC LIMIT ?2)`,
  );
  const known = reading<{ id: string }, [string]>(client, "SELECT id FROM rtc_connections WHERE id = ?");

  return {
    /** Keeps the newest `kept` records of a connection, and none of a connection that was removed in the meantime. */
    add(unit: Unit, row: FlightRecordRow, kept: number): void {
      if (!known.get(row.connection)) return;
      insert(unit, row);
      removeOldest.run(unit, row.connection, kept);
    },
    /** Newest first. */
    ofConnection: (connection: string): FlightRecordEntry[] => ofConnection.all(connection),
    find: (connection: string, id: string): FlightRecordRow | null => one.get(connection, id),
  };
}
