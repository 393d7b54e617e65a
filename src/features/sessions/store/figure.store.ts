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

/** One connection as the overview counts it. */
export type Stay = {
  roomId: string | null;
  startedAt: number;
  connectedAt: number | null;
  disconnectedAt: number | null;
  state: string;
};

export type FigureStore = ReturnType<typeof figureStore>;

/**
 * Counts over the record of connections and errors. The indexes are named: without statistics on a table that grows
 * from nothing, SQLite chooses the wrong one of two that both fit.
 */
export function figureStore({ $client: client }: Db) {
  // Without a server it is a record that a client opened by telling of it, and nobody who is there.
  const active = reading(() =>
    client.prepare<{ rooms: number; participants: number }, [string, string]>(
      `SELECT count(DISTINCT room_id) AS rooms, count(*) AS participants
     FROM rtc_connections INDEXED BY rtc_connections_open
     WHERE project_id = ? AND environment = ? AND disconnected_at IS NULL AND server_name IS NOT NULL`,
    ),
  );
  // A connection that is still trying is neither a success nor a failure.
  const totals = reading(() =>
    client.prepare<Totals, Bound>(
      `SELECT count(*) AS connections,
            count(*) FILTER (WHERE connected_at IS NOT NULL OR state = 'FAILED') AS ended,
            count(connected_at) AS succeeded,
            count(*) FILTER (WHERE connected_at IS NOT NULL AND reconnect_count > 0) AS reconnected,
            avg(disconnected_at - connected_at) AS averageDurationMs
     FROM rtc_connections INDEXED BY rtc_connections_figures
     WHERE project_id = ? AND environment = ? AND started_at >= ?`,
    ),
  );
  const joinTimes = reading(() =>
    client.prepare<{ ms: number }, Bound>(
      `SELECT join_time_ms AS ms FROM rtc_connections INDEXED BY rtc_connections_figures
     WHERE project_id = ? AND environment = ? AND started_at >= ? AND join_time_ms IS NOT NULL`,
    ),
  );
  const errors = reading(() =>
    client.prepare<{ category: ErrorCategory; count: number }, Bound>(
      `SELECT category, count(*) AS count FROM rtc_errors INDEXED BY rtc_errors_by_time
     WHERE project_id = ? AND environment = ? AND occurred_at >= ? GROUP BY category`,
    ),
  );

  const fields = `room_id AS roomId, started_at AS startedAt, connected_at AS connectedAt,
    disconnected_at AS disconnectedAt, state`;
  const stays = reading(() =>
    client.prepare<Stay, Bound>(
      `SELECT ${fields} FROM rtc_connections WHERE project_id = ?1 AND environment = ?2 AND started_at >= ?3
       UNION ALL
       SELECT ${fields} FROM rtc_connections WHERE project_id = ?1 AND environment = ?2 AND started_at < ?3
         AND disconnected_at IS NULL`,
    ),
  );
  const nothing: Totals = { connections: 0, ended: 0, succeeded: 0, reconnected: 0, averageDurationMs: null };

  return {
    active: ({ projectId, environment }: Tenant) => active.get(projectId, environment) ?? { rooms: 0, participants: 0 },
    totals: ({ projectId, environment }: Tenant, since: number): Totals =>
      totals.get(projectId, environment, since) ?? nothing,
    joinTimes: ({ projectId, environment }: Tenant, since: number) => joinTimes.all(projectId, environment, since),
    errors: ({ projectId, environment }: Tenant, since: number) => errors.all(projectId, environment, since),
    /** Those that began since, and those before that are still open. */
    stays: ({ projectId, environment }: Tenant, since: number): Stay[] => stays.all(projectId, environment, since),
  };
}
