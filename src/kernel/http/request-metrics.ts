import type { Metric } from "prom-client";
import type { Metrics } from "../metrics.ts";

const COUNT = "stoa_http_requests_total";
const SECONDS = "stoa_http_request_seconds";
const BUCKETS_SECONDS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, Number.POSITIVE_INFINITY];

type Tally = { method: string; status: number; count: number };
type RouteCounts = { tallies: Tally[]; buckets: number[]; seconds: number; count: number };
type Value = { value: number; labels: Record<string, string | number>; metricName?: string };

/**
 * Counts HTTP requests by route and status, in plain objects that the registry reads when it is scraped: its own
 * counters hash their labels at every increment, which would take a fifth of the time of an authenticated request.
 */
export function createRequestMetrics({ registry }: Metrics) {
  const routes = new Map<string, RouteCounts>();

  const register = (name: string, help: string, type: string, values: () => Value[]) =>
    registry.registerMetric({
      name,
      help,
      type,
      aggregator: "sum",
      get: async () => ({ name, help, type, aggregator: "sum", values: values() }),
      reset: () => {},
    } as unknown as Metric);

  register(COUNT, "HTTP requests by route and status", "counter", () =>
    [...routes].flatMap(([route, { tallies }]) =>
      tallies.map(({ method, status, count }) => ({
        value: count,
        labels: { method, route, status: String(status) },
      })),
    ),
  );
  register(SECONDS, "Response time by route", "histogram", () =>
    [...routes].flatMap(([route, { buckets, seconds, count }]) => [
      ...BUCKETS_SECONDS.map((bound, index) => ({
        metricName: `${SECONDS}_bucket`,
        value: buckets.slice(0, index + 1).reduce((total, one) => total + one, 0),
        labels: { le: Number.isFinite(bound) ? bound : "+Inf", route },
      })),
      { metricName: `${SECONDS}_sum`, value: seconds, labels: { route } },
      { metricName: `${SECONDS}_count`, value: count, labels: { route } },
    ]),
  );

  return (method: string, route: string, status: number, ms: number): void => {
    let counts = routes.get(route);
    if (!counts) {
      counts = { tallies: [], buckets: BUCKETS_SECONDS.map(() => 0), seconds: 0, count: 0 };
      routes.set(route, counts);
    }
    tallyOf(counts.tallies, method, status).count += 1;
    const seconds = ms / 1000;
    let bucket = 0;
    while (seconds > (BUCKETS_SECONDS[bucket] ?? 0)) bucket += 1;
    counts.buckets[bucket] = (counts.buckets[bucket] ?? 0) + 1;
    counts.seconds += seconds;
    counts.count += 1;
  };
}

/** A linear search is enough, because a route has few tallies. */
function tallyOf(tallies: Tally[], method: string, status: number): Tally {
  for (const tally of tallies) if (tally.status === status && tally.method === method) return tally;
  const tally = { method, status, count: 0 };
  tallies.push(tally);
  return tally;
}
