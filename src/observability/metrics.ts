import type { Db } from "../kernel/db/open.ts";
import type { Tenant } from "../kernel/tenant.ts";
import { ERROR_CATEGORIES, type ErrorCategory, METRIC_RANGES, type MetricRange } from "../protocol/observability.ts";

type Totals = {
  connections: number;
  ended: number;
  succeeded: number;
  reconnected: number;
  averageDurationMs: number | null;
};
type Bound = [projectId: string, environment: string, since: number];

/**
 * Figures over a range; nothing is shown where nothing was measured. The indexes are named: without statistics on a
 * table that grows from nothing, SQLite chooses the wrong one of two that both fit.
 */
export function metricsReader(db: Db, now: () => number) {
  const { $client: client } = db;
  // Without a server it is a record that a client opened by telling of it, and nobody who is there.
  const active = client.query<{ rooms: number; participants: number }, [string, string]>(
    `SELECT count(DISTINCT room_id) AS rooms, count(*) AS participants
     FROM rtc_connections INDEXED BY rtc_connections_open
     WHERE project_id = ? AND environment = ? AND disconnected_at IS NULL AND server_name IS NOT NULL`,
  );
  // A connection that is still trying is neither a success nor a failure.
  const totals = client.query<Totals, Bound>(
    `SELECT count(*) AS connections,
            count(*) FILTER (WHERE connected_at IS NOT NULL OR state = 'FAILED') AS ended,
            count(connected_at) AS succeeded,
            count(*) FILTER (WHERE connected_at IS NOT NULL AND reconnect_count > 0) AS reconnected,
            avg(disconnected_at - connected_at) AS averageDurationMs
     FROM rtc_connections INDEXED BY rtc_connections_figures
     WHERE project_id = ? AND environment = ? AND started_at >= ?`,
  );
  const joinTimes = client.query<{ ms: number }, Bound>(
    `SELECT join_time_ms AS ms FROM rtc_connections INDEXED BY rtc_connections_figures
     WHERE project_id = ? AND environment = ? AND started_at >= ? AND join_time_ms IS NOT NULL`,
  );
  const errors = client.query<{ category: ErrorCategory; count: number }, Bound>(
    `SELECT category, count(*) AS count FROM rtc_errors INDEXED BY rtc_errors_by_time
     WHERE project_id = ? AND environment = ? AND occurred_at >= ? GROUP BY category`,
  );

  return ({ projectId, environment }: Tenant, range: MetricRange) => {
    const rangeSeconds = METRIC_RANGES[range];
    const bound: Bound = [projectId, environment, now() - rangeSeconds * 1000];
    const { rooms = 0, participants = 0 } = active.get(projectId, environment) ?? {};
    const {
      connections = 0,
      ended = 0,
      succeeded = 0,
      reconnected = 0,
      averageDurationMs = null,
    } = totals.get(...bound) ?? {};
    const sorted = Float64Array.from(joinTimes.all(...bound), ({ ms }) => ms).sort();
    const counted = new Map(errors.all(...bound).map(({ category, count }) => [category, count]));
    return {
      rangeSeconds,
      activeRooms: rooms,
      activeParticipants: participants,
      connections,
      connectionSuccessRate: ratio(succeeded, ended),
      reconnectionRate: ratio(reconnected, succeeded),
      averageConnectionDurationMs: averageDurationMs === null ? null : Math.round(averageDurationMs),
      joinTimeMs: { p50: percentile(sorted, 0.5), p95: percentile(sorted, 0.95), p99: percentile(sorted, 0.99) },
      errors: {
        total: [...counted.values()].reduce((sum, count) => sum + count, 0),
        byCategory: Object.fromEntries(ERROR_CATEGORIES.map((category) => [category, counted.get(category) ?? 0])),
      },
    };
  };
}

function ratio(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}

/** Nearest rank. */
function percentile(sorted: Float64Array, p: number): number | null {
  return sorted[Math.ceil(p * sorted.length) - 1] ?? null;
}
