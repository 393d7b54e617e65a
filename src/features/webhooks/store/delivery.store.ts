import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading, rowsOf } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { DeliveryStatus } from "../../../protocol/enums.ts";
import { type Attempt, type DeliveryRow, webhookDeliveries } from "./webhook.table.ts";

type NewDelivery = { id: string; endpointId: string; eventId: string; forced: boolean; at: number };

export type PendingDelivery = { id: string; eventId: string; orderKey: string | null; dueAt: number };

export function deliveryStore({ $client: client }: Db) {
  const select = rowsOf(client, webhookDeliveries);
  const byId = select<[string]>("WHERE id = ?");
  const newest = select<[string, string, DeliveryStatus | null, number]>(
    "WHERE endpoint_id = ?1 AND id < ?2 AND (?3 IS NULL OR status = ?3) ORDER BY id DESC LIMIT ?4",
  );
  const insert = changing<[string, string, string, number, number]>(
    client,
    `INSERT INTO webhook_deliveries (id, endpoint_id, event_id, forced, next_attempt_at, created_at)
       VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT DO NOTHING`,
  );
  const pending = (condition: string) =>
    reading<PendingDelivery, [string, string, number]>(
      client,
      `SELECT d.id, d.event_id AS eventId, e.order_key AS orderKey, d.next_attempt_at AS dueAt
         FROM webhook_deliveries d JOIN webhook_events e ON e.id = d.event_id
         WHERE d.status = 'PENDING' AND d.endpoint_id = ?1 ${condition}
           AND (e.order_key IS NULL OR e.order_key NOT IN (SELECT value FROM json_each(?2)))
         ORDER BY d.next_attempt_at, d.id LIMIT ?3`,
    );
  const allPending = pending("");
  const forcedPending = pending("AND d.forced = 1");
  const record = changing<[string, DeliveryStatus, string, number | null, string | null, number | null]>(
    client,
    `UPDATE webhook_deliveries SET status = ?2, attempts = json_insert(attempts, '$[#]', json(?3)),
         attempt_count = attempt_count + 1, next_attempt_at = ?4, last_error = coalesce(?5, last_error),
         delivered_at = ?6 WHERE id = ?1`,
  );
  const reopen = changing<[number, string]>(
    client,
    `UPDATE webhook_deliveries SET status = 'PENDING', round_start = attempt_count, next_attempt_at = ?,
         delivered_at = NULL WHERE id = ?`,
  );
  const waiting = reading<{ pending: number; oldestAt: number | null }, [string]>(
    client,
    `SELECT count(*) AS pending, min(d.created_at) AS oldestAt FROM webhook_deliveries d
       JOIN webhook_endpoints e ON e.id = d.endpoint_id WHERE e.project_id = ? AND d.status = 'PENDING'`,
  );
  const pendingCount = reading<{ count: number }, []>(
    client,
    "SELECT count(*) AS count FROM webhook_deliveries WHERE status = 'PENDING'",
  );
  const pendingEndpoints = reading<{ id: string }, []>(
    client,
    "SELECT DISTINCT endpoint_id AS id FROM webhook_deliveries WHERE status = 'PENDING'",
  );

  return {
    /** Has no effect if the endpoint already has a delivery of the event. */
    insert: (unit: Unit, { id, endpointId, eventId, forced, at }: NewDelivery) =>
      void insert.run(unit, id, endpointId, eventId, forced ? 1 : 0, at),
    get: (id: string): DeliveryRow | undefined => byId.get(id),
    /** Newest first. */
    list: (endpointId: string, status: DeliveryStatus | undefined, before: string, limit: number): DeliveryRow[] =>
      newest.all(endpointId, before, status ?? null, limit),

    /**
     * The first due first, then the oldest. `forcedOnly` selects the deliveries that are sent to a disabled endpoint
     * too; deliveries with an order key in `blockedKeys` are left out.
     */
    pending: (
      endpointId: string,
      limit: number,
      { forcedOnly, blockedKeys }: { forcedOnly: boolean; blockedKeys: string[] },
    ): PendingDelivery[] =>
      (forcedOnly ? forcedPending : allPending).all(endpointId, JSON.stringify(blockedKeys), limit),
    /** The number of a project's pending deliveries, and the time of the oldest one. */
    waiting: (projectId: string) => waiting.get(projectId) ?? { pending: 0, oldestAt: null },
    pendingCount: (): number => pendingCount.get()?.count ?? 0,
    pendingEndpoints: () => pendingEndpoints.all().map(({ id }) => id),
    record: (
      unit: Unit,
      id: string,
      attempt: Attempt,
      result: { status: DeliveryStatus; nextAttemptAt: number | null; deliveredAt: number | null },
    ) => {
      const { status, nextAttemptAt, deliveredAt } = result;
      record.run(unit, id, status, JSON.stringify(attempt), nextAttemptAt, attempt.error, deliveredAt);
    },
    /** Starts another round of attempts. */
    reopen: (unit: Unit, id: string, at: number) => void reopen.run(unit, at, id),
  };
}
