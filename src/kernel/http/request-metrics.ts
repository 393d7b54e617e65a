import type { Metric } from "prom-client";
import type { Metrics } from "../metrics.ts";

const COUNT = "stoa_http_requests_total";
const SECONDS = "stoa_http_request_seconds";
const BUCKETS_SECONDS = [0.001, 0.005, 0.02, 0.1, 0.5, 2, 10, Number.POSITIVE_INFINITY];

type Tally = { method: string; status: number; route: string; count: number };
type Times = { buckets: number[]; sum: number; count: number };
type Value = { value: number; labels: Record<string, string | number>; metricName?: string };

/**
 * HTTP requests by route and status. Counted in plain maps that are shown to the registry when it is scraped: its own
 * counters hash their labels at every increment, which cost a fifth of an authenticated request.
 */
export function createRequestMetrics({ registry }: Metrics) {
  const tallies = new Map<string, Tally>();
  const times = new Map<string, Times>();

  const show = (name: string, help: string, type: string, values: () => Value[]) =>
    registry.registerMetric({
      name,
      help,
      type,
      aggregator: "sum",
      get: async () => ({ name, help, type, aggregator: "sum", values: values() }),
      reset: () => {},
    } as unknown as Metric);

  show(COUNT, "HTTP requests by route and status", "counter", () =>
    [...tallies.values()].map(({ method, route, status, count }) => ({
      value: count,
      labels: { method, route, status: String(status) },
    })),
  );
  show(SECONDS, "Time to answer by route", "histogram", () =>
    [...times].flatMap(([route, { buckets, sum, count }]) => [
      ...BUCKETS_SECONDS.map((bound, index) => ({
        metricName: `${SECONDS}_bucket`,
        value: buckets.slice(0, index + 1).reduce((total, one) => total + one, 0),
        labels: { le: Number.isFinite(bound) ? bound : "+Inf", route },
      })),
      { metricName: `${SECONDS}_sum`, value: sum, labels: { route } },
      { metricName: `${SECONDS}_count`, value: count, labels: { route } },
    ]),
  );

  return (method: string, route: string, status: number, ms: number): void => {
    const key = `${method} ${status} ${route}`;
    const tally = tallies.get(key);
    if (tally) tally.count += 1;
    else tallies.set(key, { method, status, route, count: 1 });

    const time = times.get(route) ?? { buckets: BUCKETS_SECONDS.map(() => 0), sum: 0, count: 0 };
    if (time.count === 0) times.set(route, time);
    const index = BUCKETS_SECONDS.findIndex((bound) => ms / 1000 <= bound);
    time.buckets[index] = (time.buckets[index] ?? 0) + 1;
    time.sum += ms / 1000;
    time.count += 1;
  };
}
