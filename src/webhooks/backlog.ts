import type { WebhookStores } from "./store/stores.ts";

/** Of what an endpoint has yet to read, no more than this is counted. */
const COUNTED_PER_ENDPOINT = 1000;

/** What waits to be delivered for a project, and how many of its endpoints fail. */
export function webhookBacklog({ deliveries, endpoints, events, periods }: WebhookStores) {
  return (projectId: string) => {
    const rows = endpoints.ofProject(projectId);
    const drawn = deliveries.waiting(projectId);
    const unread = rows.flatMap((endpoint) =>
      periods
        .of(endpoint.id)
        .flatMap(({ position, endSeq }) =>
          events.read(endpoint, position, endSeq ?? Number.MAX_SAFE_INTEGER, COUNTED_PER_ENDPOINT),
        ),
    );
    const since = [...unread.map(({ createdAt }) => createdAt), drawn.oldestAt].filter((at) => at !== null);
    const failing = rows.filter(
      ({ consecutiveFailures, status, disabledReason }) =>
        consecutiveFailures > 0 || (status === "DISABLED" && disabledReason !== "manual"),
    );
    return {
      pending: drawn.pending + unread.length,
      oldestAt: since.length === 0 ? null : since.reduce((a, b) => Math.min(a, b)),
      failingEndpoints: failing.length,
    };
  };
}
