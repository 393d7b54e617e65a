import { and, asc, desc, eq, lt, type SQL, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { DeliveryStatus } from "../../../protocol/enums.ts";
import { type Attempt, type DeliveryRow, webhookDeliveries as deliveries, webhookEvents } from "./webhook.table.ts";

type NewDelivery = { id: string; endpointId: string; eventId: string; forced: boolean; at: number };
export type ListedDelivery = { delivery: DeliveryRow; eventType: string };

export type PendingDelivery = { id: string; eventId: string; orderKey: string | null; dueAt: number };

export function deliveryStore(db: Db) {
  const insert = changing(() =>
    db
      .insert(deliveries)
      .values({
        id: sql.placeholder("id"),
        endpointId: sql.placeholder("endpointId"),
        eventId: sql.placeholder("eventId"),
        forced: sql.placeholder("forced"),
        nextAttemptAt: sql.placeholder("at"),
        createdAt: sql.placeholder("at"),
      })
      .onConflictDoNothing()
      .prepare(),
  );
  const byId = reading(() =>
    db
      .select()
      .from(deliveries)
      .where(eq(deliveries.id, sql.placeholder("id")))
      .prepare(),
  );
  const listed = (where?: SQL) =>
    db
      .select({ delivery: deliveries, eventType: webhookEvents.type })
      .from(deliveries)
      .innerJoin(webhookEvents, eq(webhookEvents.id, deliveries.eventId))
      .where(and(eq(deliveries.endpointId, sql.placeholder("endpointId")), where));
  const page = (status?: SQL) =>
    reading(() =>
      listed(and(lt(deliveries.id, sql.placeholder("before")), status))
        .orderBy(desc(deliveries.id))
        .limit(sql.placeholder("limit"))
        .prepare(),
    );
  const all = page();
  const ofStatus = page(eq(deliveries.status, sql.placeholder("status")));
  const one = reading(() => listed(eq(deliveries.id, sql.placeholder("id"))).prepare());

  const isPending = eq(deliveries.status, sql`'PENDING'`);
  const unblocked = sql`(${webhookEvents.orderKey} IS NULL
    OR ${webhookEvents.orderKey} NOT IN (SELECT value FROM json_each(${sql.placeholder("blockedKeys")})))`;
  const pending = (forced?: SQL) =>
    reading(() =>
      db
        .select({
          id: deliveries.id,
          eventId: deliveries.eventId,
          orderKey: webhookEvents.orderKey,
          dueAt: sql<number>`${deliveries.nextAttemptAt}`,
        })
        .from(deliveries)
        .innerJoin(webhookEvents, eq(webhookEvents.id, deliveries.eventId))
        .where(and(isPending, eq(deliveries.endpointId, sql.placeholder("endpointId")), unblocked, forced))
        .orderBy(asc(deliveries.nextAttemptAt), asc(deliveries.id))
        .limit(sql.placeholder("limit"))
        .prepare(),
    );
  const allPending = pending();
  const forcedPending = pending(eq(deliveries.forced, true));
  const record = changing(() =>
    db
      .update(deliveries)
      .set({
        status: sql`${sql.placeholder("status")}`,
        attempts: sql`json_insert(${deliveries.attempts}, '$[#]', json(${sql.placeholder("attempt")}))`,
        attemptCount: sql`${deliveries.attemptCount} + 1`,
        nextAttemptAt: sql`${sql.placeholder("nextAttemptAt")}`,
        lastError: sql`coalesce(${sql.placeholder("error")}, ${deliveries.lastError})`,
        deliveredAt: sql`${sql.placeholder("deliveredAt")}`,
      })
      .where(eq(deliveries.id, sql.placeholder("id")))
      .prepare(),
  );
  const reopen = changing(() =>
    db
      .update(deliveries)
      .set({
        status: "PENDING",
        roundStart: sql`${deliveries.attemptCount}`,
        nextAttemptAt: sql`${sql.placeholder("at")}`,
        deliveredAt: null,
      })
      .where(eq(deliveries.id, sql.placeholder("id")))
      .prepare(),
  );

  const waiting = reading(() =>
    db.$client.prepare<{ pending: number; oldestAt: number | null }, [string]>(
      `SELECT count(*) AS pending, min(d.created_at) AS oldestAt FROM webhook_deliveries d
       JOIN webhook_endpoints e ON e.id = d.endpoint_id WHERE e.project_id = ? AND d.status = 'PENDING'`,
    ),
  );
  const queued = reading(() =>
    db.$client.prepare<{ count: number }, []>(
      "SELECT count(*) AS count FROM webhook_deliveries WHERE status = 'PENDING'",
    ),
  );

  return {
    /** Again for the same event and endpoint: no effect. */
    insert: (unit: Unit, row: NewDelivery) => void insert.run(unit, row),
    get: (id: string): DeliveryRow | undefined => byId.get({ id }),
    find: (endpointId: string, id: string): ListedDelivery | undefined => one.get({ endpointId, id }),
    /** Newest first. */
    list: (endpointId: string, status: DeliveryStatus | undefined, before: string, limit: number): ListedDelivery[] =>
      status === undefined
        ? all.all({ endpointId, before, limit })
        : ofStatus.all({ endpointId, status, before, limit }),

    /**
     * First due first, then first made. `forcedOnly`: of a disabled endpoint, only what was asked for by hand;
     * `blockedKeys`: nothing with these order keys.
     */
    pending: (
      endpointId: string,
      limit: number,
      { forcedOnly, blockedKeys }: { forcedOnly: boolean; blockedKeys: string[] },
    ): PendingDelivery[] =>
      (forcedOnly ? forcedPending : allPending).all({ endpointId, limit, blockedKeys: JSON.stringify(blockedKeys) }),
    /** How many of a project's wait, and since when. */
    waiting: (projectId: string) => waiting.get(projectId) ?? { pending: 0, oldestAt: null },
    /** How many wait, over all projects. */
    queued: (): number => queued.get()?.count ?? 0,
    /** Every endpoint that has something pending. */
    pendingEndpoints: (): string[] =>
      db
        .selectDistinct({ endpointId: deliveries.endpointId })
        .from(deliveries)
        .where(isPending)
        .all()
        .map(({ endpointId }) => endpointId),
    record: (
      unit: Unit,
      id: string,
      attempt: Attempt,
      result: { status: DeliveryStatus; nextAttemptAt: number | null; deliveredAt: number | null },
    ) => void record.run(unit, { id, attempt: JSON.stringify(attempt), error: attempt.error, ...result }),
    /** Starts another round of attempts. */
    reopen: (unit: Unit, id: string, at: number) => void reopen.run(unit, { id, at }),
  };
}

export type DeliveryStore = ReturnType<typeof deliveryStore>;
