import type { Db } from "../kernel/db/open.ts";

/** What waits to be delivered for a project, and how many of its endpoints fail. */
export function webhookBacklog({ $client: client }: Db) {
  const waiting = client.query<{ pending: number; oldestAt: number | null }, [string]>(
    `SELECT count(*) AS pending, min(d.created_at) AS oldestAt FROM webhook_deliveries d
     JOIN webhook_endpoints e ON e.id = d.endpoint_id WHERE e.project_id = ? AND d.status = 'PENDING'`,
  );
  const failing = client.query<{ count: number }, [string]>(
    `SELECT count(*) AS count FROM webhook_endpoints
     WHERE project_id = ? AND (consecutive_failures > 0 OR (status = 'DISABLED' AND disabled_reason <> 'manual'))`,
  );
  return (projectId: string) => ({
    pending: waiting.get(projectId)?.pending ?? 0,
    oldestAt: waiting.get(projectId)?.oldestAt ?? null,
    failingEndpoints: failing.get(projectId)?.count ?? 0,
  });
}

/** Deliveries that wait, over all projects. */
export function webhookQueue({ $client: client }: Db): () => number {
  const waiting = client.query<{ count: number }, []>(
    "SELECT count(*) AS count FROM webhook_deliveries WHERE status = 'PENDING'",
  );
  return () => waiting.get()?.count ?? 0;
}
