import type { WebhookStores } from "./store/stores.ts";

/** Of what endpoints have yet to read, no more than this is counted: whoever asks wants to know that it is much. */
const COUNTED = 1000;

/** What waits to be delivered for a project, and how many of its endpoints fail. */
export function webhookBacklog({ deliveries, endpoints, events, periods }: WebhookStores) {
  return (projectId: string) => {
    const rows = endpoints.ofProject(projectId);
    const drawn = deliveries.waiting(projectId);
    let pending = 0;
    const since: number[] = drawn.oldestAt === null ? [] : [drawn.oldestAt];
    for (const endpoint of rows) {
      for (const { position, endSeq } of periods.of(endpoint.id)) {
        if (pending >= COUNTED) break;
        const unread = events.unread(endpoint, position, endSeq ?? Number.MAX_SAFE_INTEGER, COUNTED - pending);
        pending += unread.count;
        if (unread.oldestAt !== null) since.push(unread.oldestAt);
      }
    }
    const failing = rows.filter(
      ({ consecutiveFailures, status, disabledReason }) =>
        consecutiveFailures > 0 || (status === "DISABLED" && disabledReason !== "manual"),
    );
    return {
      pending: drawn.pending + pending,
      oldestAt: since.length === 0 ? null : since.reduce((a, b) => Math.min(a, b)),
      failingEndpoints: failing.length,
    };
  };
}
