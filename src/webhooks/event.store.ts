import { and, asc, eq, gt, gte, isNull, lte, ne, or, sql } from "drizzle-orm";
import type { Db } from "../kernel/db/open.ts";
import type { Environment } from "../protocol/enums.ts";
import { WEBHOOK_TEST_TYPE } from "../protocol/webhook-events.ts";
import { type EventRow, webhookEvents as events, webhookDeliveries } from "./webhook.table.ts";

/** The outbox, and what it keeps for redelivery. */
export function eventStore(db: Db) {
  const insert = db
    .insert(events)
    .values({
      id: sql.placeholder("id"),
      projectId: sql.placeholder("projectId"),
      environment: sql.placeholder("environment"),
      type: sql.placeholder("type"),
      body: sql.placeholder("body"),
      messageId: sql.placeholder("messageId"),
      createdAt: sql.placeholder("createdAt"),
      queuedAt: sql.placeholder("queuedAt"),
    })
    .prepare();
  const waiting = db
    .select({ id: events.id, projectId: events.projectId, environment: events.environment, type: events.type })
    .from(events)
    .where(isNull(events.queuedAt))
    .orderBy(sql`rowid`)
    .limit(sql.placeholder("limit"))
    .prepare();
  const queued = db
    .update(events)
    .set({ queuedAt: sql`${sql.placeholder("at")}` })
    .where(eq(events.id, sql.placeholder("id")))
    .prepare();
  const body = db
    .select({ type: events.type, body: events.body })
    .from(events)
    .where(eq(events.id, sql.placeholder("id")))
    .prepare();
  const ofMessage = db
    .select({ id: events.id, body: events.body })
    .from(events)
    .where(eq(events.messageId, sql.placeholder("messageId")))
    .prepare();
  const rewrite = db
    .update(events)
    .set({ body: sql`${sql.placeholder("body")}` })
    .where(eq(events.id, sql.placeholder("id")))
    .prepare();
  const prune = db
    .delete(events)
    .where(
      sql`${events.id} IN (SELECT id FROM webhook_events WHERE created_at < ${sql.placeholder("before")} LIMIT ${sql.placeholder("limit")})`,
    )
    .returning({ id: events.id })
    .prepare();
  const missed = db
    .select({ id: events.id, type: events.type, createdAt: events.createdAt, deliveryId: webhookDeliveries.id })
    .from(events)
    .leftJoin(
      webhookDeliveries,
      and(
        eq(webhookDeliveries.eventId, events.id),
        eq(webhookDeliveries.endpointId, sql`${sql.placeholder("endpointId")}`),
      ),
    )
    .where(
      and(
        eq(events.projectId, sql.placeholder("projectId")),
        eq(events.environment, sql.placeholder("environment")),
        gte(events.createdAt, sql.placeholder("since")),
        lte(events.createdAt, sql.placeholder("until")),
        ne(events.type, WEBHOOK_TEST_TYPE),
        // What still waits in the outbox is on its way already.
        sql`${events.queuedAt} IS NOT NULL`,
        or(isNull(webhookDeliveries.status), eq(webhookDeliveries.status, "FAILED")),
        or(
          gt(events.createdAt, sql.placeholder("since")),
          and(eq(events.createdAt, sql.placeholder("since")), gt(events.id, sql.placeholder("afterId"))),
        ),
      ),
    )
    .orderBy(asc(events.createdAt), asc(events.id))
    .limit(sql.placeholder("limit"))
    .prepare();

  return {
    insert: (row: EventRow) => void insert.run(row),
    /** Oldest first. */
    outbox: (limit: number) => waiting.all({ limit }),
    markQueued: (id: string, at: number) => void queued.run({ id, at }),
    body: (id: string) => body.get({ id }),
    ofMessage: (messageId: string) => ofMessage.all({ messageId }),
    rewrite: (id: string, body: string) => void rewrite.run({ id, body }),
    /** Deliveries go with their event. True when there may be more. */
    prune: (before: number, limit: number): boolean => prune.all({ before, limit }).length === limit,
    /** Events that the endpoint never got: those that failed, and those from while it was disabled. Oldest first. */
    missedBy: (
      endpoint: { id: string; projectId: string; environment: Environment },
      range: { since: number; until: number; afterId: string },
      limit: number,
    ): Missed[] =>
      missed.all({
        endpointId: endpoint.id,
        projectId: endpoint.projectId,
        environment: endpoint.environment,
        ...range,
        limit,
      }),
  };
}

export type Missed = { id: string; type: string; createdAt: number; deliveryId: string | null };
export type EventStore = ReturnType<typeof eventStore>;
