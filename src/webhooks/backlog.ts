import type { Db } from "../kernel/db/open.ts";
import type { WebhookStores } from "./store/stores.ts";

/** Of what an endpoint has yet to read, no more than this is counted. */
const COUNTED_PER_ENDPOINT = 1000;

/** What waits to be delivered for a project, and how many of its endpoints fail. */
export function webhookBacklog(db: Db, { endpoints, events, periods }: WebhookStores) {
  const waiting = db.$client.query<{ pending: number; oldestAt: number | null }, [string]>(
    `SELECT count(*) AS pending, min(d.created_at) AS oldestAt FROM webhook_deliveries d
     JOIN webhook_endpoints e ON e.id = d.endpoint_id WHERE e.project_id = ? AND d.status = 'PENDING'`,
  );

  return (projectId: string) => {
    const rows = endpoints.ofProject(projectId);
    const drawn = waiting.get(projectId) ?? { pending: 0, oldestAt: null };
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

/** Deliveries that wait, over all projects; what endpoints have yet to read of the log is not among them. */
export function webhookQueue({ $client: client }: Db): () => number {
  const waiting = client.query<{ count: number }, []>(
    "SELECT count(*) AS count FROM webhook_deliveries WHERE status = 'PENDING'",
  );
  return () => waiting.get()?.count ?? 0;
}
