import type { Tenant } from "../../kernel/tenant.ts";
import { ERROR_CATEGORIES, METRIC_RANGES, type MetricRange } from "../../protocol/observability.ts";
import type { FigureStore } from "./store/figure.store.ts";

/** Figures over a range; nothing is shown where nothing was measured. */
export function metricsReader(store: FigureStore, now: () => number) {
  return (tenant: Tenant, range: MetricRange) => {
    const rangeSeconds = METRIC_RANGES[range];
    const since = now() - rangeSeconds * 1000;
    const { rooms, participants } = store.active(tenant);
    const { connections, ended, succeeded, reconnected, averageDurationMs } = store.totals(tenant, since);
    const sorted = Float64Array.from(store.joinTimes(tenant, since), ({ ms }) => ms).sort();
    const counted = new Map(store.errors(tenant, since).map(({ category, count }) => [category, count]));
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
