import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { type FlightRow, flights } from "./flight.table.ts";

/** Without the dump itself. */
export type FlightEntry = Omit<FlightRow, "dump"> & { bytes: number };

export function flightStore({ $client: client }: Db) {
  const insert = inserter<FlightRow>(client, flights);
  const ofConnection = reading(() =>
    client.prepare<FlightEntry, [string]>(
      `SELECT id, connection, reason, taken_at AS takenAt, length(dump) AS bytes FROM rtc_flights
       WHERE connection = ? ORDER BY taken_at DESC, id DESC`,
    ),
  );
  const one = reading(() =>
    client.prepare<FlightRow, [string, string]>(
      `SELECT ${columnsOf(flights)} FROM rtc_flights WHERE connection = ? AND id = ?`,
    ),
  );
  const forgetOldest = changing(() =>
    client.prepare(
      `DELETE FROM rtc_flights WHERE connection = ?1 AND id NOT IN
       (SELECT id FROM rtc_flights WHERE connection = ?1 ORDER BY taken_at DESC, id DESC LIMIT ?2)`,
    ),
  );
  const known = reading(() => client.prepare<{ id: string }, [string]>("SELECT id FROM rtc_connections WHERE id = ?"));

  return {
    /** Keeps the newest `most` of a connection. Nothing for one that was removed meanwhile. */
    add(unit: Unit, row: FlightRow, most: number): void {
      if (!known.get(row.connection)) return;
      insert(unit, row);
      forgetOldest.run(unit, row.connection, most);
    },
    /** Newest first. */
    ofConnection: (connection: string): FlightEntry[] => ofConnection.all(connection),
    find: (connection: string, id: string): FlightRow | null => one.get(connection, id),
  };
}
