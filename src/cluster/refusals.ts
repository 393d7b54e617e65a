import type { RefusedPart } from "../kernel/db/log-seal.ts";
import type { Log } from "../kernel/log.ts";
import type { Metrics } from "../kernel/metrics.ts";

const LOG_REFUSED_EVERY_MS = 60_000;

/** How many entries of the log were rejected because no server of this cluster wrote them. */
export type Refusals = Record<RefusedPart, number>;

/** Counts a rejected entry and logs it, at most once a minute. */
export function countRefusals(refused: Refusals, log: Log): (part: RefusedPart) => void {
  const loggedAt = new Map<RefusedPart, number>();
  return (part) => {
    refused[part]++;
    const now = performance.now();
    if (now - (loggedAt.get(part) ?? Number.NEGATIVE_INFINITY) < LOG_REFUSED_EVERY_MS) return;
    loggedAt.set(part, now);
    log.error({ part }, "cluster: rejected a commit log entry that failed authentication");
  };
}

export function measureRefusals(metrics: Metrics, refused: Refusals): void {
  const counter = metrics.counter(
    "stoa_cluster_refused_total",
    "Parts of the commit log that were refused because no server of this cluster wrote them",
    ["part"],
  );
  Object.assign(counter, {
    collect() {
      counter.reset();
      for (const [part, count] of Object.entries(refused)) counter.inc({ part }, count);
    },
  });
}
