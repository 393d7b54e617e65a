import type { Db } from "../../../kernel/db/open.ts";
import { reading } from "../../../kernel/db/statements.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { ErrorCategory } from "../../../protocol/observability.ts";

type Totals = {
  connections: number;
  ended: number;
  succeeded: number;
  reconnected: number;
  averageDurationMs: number | null;
};
type Bound = [projectId: string, environment: string, since: number];

export type CountedConnection = {
  roomId: string | null;
  startedAt: number;
  connectedAt: number | null;
  disconnectedAt: number | null;
  state: string;
};

/**
 * Counts connections and errors. The statements name their indexes: without statistics on a new table, SQLite chooses
 * the wrong one of two suitable indexes.
 */
export function metricsStore({ $client: client }: Db) {
  // A connection without a server exists only in the telemetry of a client; its participant is not in a room.
  const active = reading<{ rooms: number; participants: number }, [string, string]>(
    client,
    `SELECT count(DISTINCT room_id) AS rooms, count(*) AS participants
     FROM rtc_connections INDEXED BY rtc_connections_open
     WHERE project_id = ? AND environment = ? AND disconnected_at IS NULL AND server_name IS NOT NULL`,
  );
  // A connection that is still connecting is neither a success nor a failure.
  const totals = reading<Totals, Bound>(
    client,
    `SELECT count(*) AS connections,
            count(*) FILTER (WHERE connected_at IS NOT NULL OR state = 'FAILED') AS ended,
            count(connected_at) AS succeeded,
            count(*) FILTER (WHERE connected_at IS NOT NULL AND reconnect_count > 0) AS reconnected,
            avg(disconnected_at - connected_at) AS averageDurationMs
     FROM rtc_connections INDEXED BY rtc_connections_figures
     WHERE project_id = ? AND environment = ? AND started_at >= ?`,
  );
  const joinTimes = reading<{ ms: number }, Bound>(
    client,
    `SELECT join_time_ms AS ms FROM rtc_connections INDEXED BY rtc_connections_figures
     WHERE project_id = ? AND environment = ? AND started_at >= ? AND join_time_ms IS NOT NULL`,
  );
  const errors = reading<{ category: ErrorCategory; count: number }, Bound>(
    client,
    `SELECT category, count(*) AS count FROM rtc_errors INDEXED BY rtc_errors_by_time
     WHERE project_id = ? AND environment = ? AND occurred_at >= ? GROUP BY category`,
  );

  const fields = `room_id AS roomId, started_at AS startedAt, connected_at AS connectedAt,
    disconnected_at AS disconnectedAt, state`;
  const connectionsSince = reading<CountedConnection, Bound>(
    client,
    `SELECT ${fields} FROM rtc_connections WHERE project_id = ?1 AND environment = ?2 AND started_at >= ?3
       UNION ALL
       SELECT ${fields} FROM rtc_connections WHERE project_id = ?1 AND environment = ?2 AND started_at < ?3
         AND disconnected_at IS NULL`,
  );
  const nothing: Totals = { connections: 0, ended: 0, succeeded: 0, reconnected: 0, averageDurationMs: null };

  return {
    active: ({ projectId, environment }: Tenant) => active.get(projectId, environment) ?? { rooms: 0, participants: 0 },
    totals: ({ projectId, environment }: Tenant, since: number): Totals =>
      totals.get(projectId, environment, since) ?? nothing,
    joinTimes: ({ projectId, environment }: Tenant, since: number) => joinTimes.all(projectId, environment, since),
    errors: ({ projectId, environment }: Tenant, since: number) => errors.all(projectId, environment, since),
    /** Connections that began at or after `since`, and earlier ones that are still open. */
    connectionsSince: ({ projectId, environment }: Tenant, since: number): CountedConnection[] =>
      connectionsSince.all(projectId, environment, since),
  };
}
