import type { Runtime } from "../../../kernel/runtime.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { DAY_MS, iso } from "../../../kernel/time/clock.ts";
import { ERROR_CATEGORIES, METRIC_RANGES, type MetricRange } from "../../../protocol/observability.ts";
import type { Activity } from "./activity.ts";
import { type CountedConnection, metricsStore } from "./metrics.store.ts";

const STEP_SECONDS: Record<MetricRange, number> = { "15m": 60, "1h": 60, "24h": 900, "7d": 3600 };
/**
 * Connections that began before the range may extend into it. Longer ones are rare, and are found while they are open.
 */
const LOOK_BACK_MS = DAY_MS;

export type Metrics = ReturnType<typeof createMetrics>;

/** The figures of a project over a range: as totals, and over time. */
export function createMetrics({ db, now }: Runtime, activity: Pick<Activity, "read">) {
  const store = metricsStore(db);
  return {
    /** A figure is null if nothing was measured. */
    totals(tenant: Tenant, range: MetricRange) {
      const rangeSeconds = METRIC_RANGES[range];
      const since = now() - rangeSeconds * 1000;
      const { rooms, participants } = store.active(tenant);
      const { connections, ended, succeeded, reconnected, averageDurationMs } = store.totals(tenant, since);
      const joinTimes = Float64Array.from(store.joinTimes(tenant, since), ({ ms }) => ms).sort();
      const counts = new Map(store.errors(tenant, since).map(({ category, count }) => [category, count]));
      return {
        rangeSeconds,
        activeRooms: rooms,
        activeParticipants: participants,
        connections,
        connectionSuccessRate: ratio(succeeded, ended),
        reconnectionRate: ratio(reconnected, succeeded),
        averageConnectionDurationMs: averageDurationMs === null ? null : Math.round(averageDurationMs),
        joinTimeMs: {
          p50: percentile(joinTimes, 0.5),
          p95: percentile(joinTimes, 0.95),
          p99: percentile(joinTimes, 0.99),
        },
        errors: {
          total: [...counts.values()].reduce((sum, count) => sum + count, 0),
          byCategory: Object.fromEntries(ERROR_CATEGORIES.map((category) => [category, counts.get(category) ?? 0])),
        },
      };
    },

    /** The length of a step depends on the range. The last step is incomplete. */
    series(tenant: Tenant, range: MetricRange) {
      const rangeSeconds = METRIC_RANGES[range];
      const stepSeconds = STEP_SECONDS[range];
      const step = stepSeconds * 1000;
      const end = now();
      const first = (Math.floor((end - rangeSeconds * 1000) / step) + 1) * step;
      const points = Array.from({ length: Math.floor((end - first) / step) + 1 }, (_, index) => ({
        at: iso(first + index * step),
        rooms: 0,
        participants: 0,
        joins: 0,
        failedJoins: 0,
        messages: 0,
        deliveries: 0,
        failedDeliveries: 0,
      }));
      const pointAt = (at: number) => points[Math.floor((at - first) / step)];

      const connections = store.connectionsSince(tenant, first - LOOK_BACK_MS);
      for (const { startedAt, connectedAt, state } of connections) {
        const point = pointAt(startedAt);
        if (!point) continue;
        point.joins += 1;
        if (state === "FAILED" && connectedAt === null) point.failedJoins += 1;
      }
      for (const { from, until, participants, rooms } of occupancy(connections, first, end)) {
        for (let index = Math.floor((from - first) / step); first + index * step < until; index++) {
          const point = points[index];
          if (!point) break;
          point.participants = Math.max(point.participants, participants);
          point.rooms = Math.max(point.rooms, rooms);
        }
      }
      for (const { at, messages, deliveries, failedDeliveries } of activity.read(tenant, first)) {
        const point = pointAt(at);
        if (!point) continue;
        point.messages += messages;
        point.deliveries += deliveries;
        point.failedDeliveries += failedDeliveries;
      }
      return { rangeSeconds, stepSeconds, points };
    },
  };
}

/** The number of participants and rooms between successive joins and leaves. */
function* occupancy(connections: CountedConnection[], first: number, end: number) {
  const changes: { at: number; roomId: string | null; change: number }[] = [];
  for (const { roomId, connectedAt, disconnectedAt } of connections) {
    if (connectedAt === null || (disconnectedAt !== null && disconnectedAt <= first)) continue;
    changes.push({ at: Math.max(first, connectedAt), roomId, change: 1 });
    changes.push({ at: disconnectedAt ?? end + 1, roomId, change: -1 });
  }
  changes.sort((a, b) => a.at - b.at);
  const byRoom = new Map<string | null, number>();
  let participants = 0;
  for (const [index, { at, roomId, change }] of changes.entries()) {
    participants += change;
    const inRoom = (byRoom.get(roomId) ?? 0) + change;
    if (inRoom === 0) byRoom.delete(roomId);
    else byRoom.set(roomId, inRoom);
    // Changes at the same moment count as one.
    const until = changes[index + 1]?.at ?? at;
    if (until > at) yield { from: at, until, participants, rooms: byRoom.size };
  }
}

function ratio(part: number, whole: number): number | null {
  return whole === 0 ? null : part / whole;
}

/** Nearest rank. */
function percentile(sorted: Float64Array, p: number): number | null {
  return sorted[Math.ceil(p * sorted.length) - 1] ?? null;
}
