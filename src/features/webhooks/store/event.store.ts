import { and, asc, count, eq, gte, isNull, lte, max, min, ne, or, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Environment } from "../../../protocol/enums.ts";
import { WEBHOOK_TEST_TYPE } from "../../../protocol/webhook-events.ts";
import { type EventRow, webhookEvents as events, webhookDeliveries } from "./webhook.table.ts";

/** Whose events, and of which types; an empty filter takes all. */
type Reader = { projectId: string; environment: Environment; events: readonly string[] };

/** The log of events: the outbox, and what can be sent again. */
export function eventStore(db: Db) {
  const insert = changing(() =>
    db
      .insert(events)
      .values({
        id: sql.placeholder("id"),
        projectId: sql.placeholder("projectId"),
        environment: sql.placeholder("environment"),
        type: sql.placeholder("type"),
        body: sql.placeholder("body"),
        messageId: sql.placeholder("messageId"),
        orderKey: sql.placeholder("orderKey"),
        createdAt: sql.placeholder("createdAt"),
      })
      .prepare(),
  );
  const last = reading(() =>
    db
      .select({ seq: max(events.seq) })
      .from(events)
      .prepare(),
  );
  const readable = and(
    eq(events.projectId, sql.placeholder("projectId")),
    eq(events.environment, sql.placeholder("environment")),
    ne(events.type, WEBHOOK_TEST_TYPE),
    sql`(${sql.placeholder("filter")} = '[]' OR ${events.type} IN (SELECT value FROM json_each(${sql.placeholder("filter")})))`,
  );
  const ofStretch = and(
    readable,
    sql`${events.seq} > ${sql.placeholder("after")}`,
    sql`${events.seq} <= ${sql.placeholder("until")}`,
  );
  const stretch = reading(() =>
    db
      .select({ seq: events.seq, id: events.id })
      .from(events)
      .where(ofStretch)
      .orderBy(asc(events.seq))
      .limit(sql.placeholder("limit"))
      .prepare(),
  );
  const unread = reading(() => {
    const part = db
      .select({ createdAt: events.createdAt })
      .from(events)
      .where(ofStretch)
      .orderBy(asc(events.seq))
      .limit(sql.placeholder("limit"))
      .as("part");
    return db
      .select({ count: count(), oldestAt: min(part.createdAt) })
      .from(part)
      .prepare();
  });
  const missed = reading(() =>
    db
      .select({ seq: events.seq, id: events.id, deliveryId: webhookDeliveries.id })
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
          readable,
          sql`${events.seq} > ${sql.placeholder("after")}`,
          gte(events.createdAt, sql.placeholder("since")),
          lte(events.createdAt, sql.placeholder("until")),
          or(isNull(webhookDeliveries.status), eq(webhookDeliveries.status, "FAILED")),
          // What the endpoint has yet to read is on its way already.
          sql`NOT EXISTS (SELECT 1 FROM webhook_periods AS ahead
          WHERE ahead.endpoint_id = ${sql.placeholder("endpointId")} AND ${events.seq} > ahead.position
            AND ${events.seq} <= coalesce(ahead.end_seq, ${events.seq}))`,
        ),
      )
      .orderBy(asc(events.seq))
      .limit(sql.placeholder("limit"))
      .prepare(),
  );
  const body = reading(() =>
    db
      .select({ type: events.type, body: events.body, createdAt: events.createdAt })
      .from(events)
      .where(eq(events.id, sql.placeholder("id")))
      .prepare(),
  );
  const ofMessage = reading(() =>
    db
      .select({ id: events.id, body: events.body })
      .from(events)
      .where(eq(events.messageId, sql.placeholder("messageId")))
      .prepare(),
  );
  const rewrite = changing(() =>
    db
      .update(events)
      .set({ body: sql`${sql.placeholder("body")}` })
      .where(eq(events.id, sql.placeholder("id")))
      .prepare(),
  );
  const prune = changing(() =>
    db
      .delete(events)
      .where(
        sql`${events.seq} IN (SELECT seq FROM webhook_events WHERE created_at < ${sql.placeholder("before")} LIMIT ${sql.placeholder("limit")})`,
      )
      .returning({ id: events.id })
      .prepare(),
  );

  const asked = ({ projectId, environment, events: filter }: Reader) => ({
    projectId,
    environment,
    filter: JSON.stringify(filter),
  });

  return {
    insert: (unit: Unit, row: Omit<EventRow, "seq">) => void insert.run(unit, row),
    /** Number of the newest event; 0 before the first. */
    lastSeq: (): number => last.get()?.seq ?? 0,
    /** What is new to the reader in a stretch of the log, oldest first. */
    read: (reader: Reader, after: number, until: number, limit: number) =>
      stretch.all({ ...asked(reader), after, until, limit }),
    /** How much that is, counted up to `limit` without being read. */
    unread: (reader: Reader, after: number, until: number, limit: number) =>
      unread.get({ ...asked(reader), after, until, limit }) ?? { count: 0, oldestAt: null },
    /** What the endpoint never got: what failed, and what happened while it was disabled. Oldest first. */
    missed: (
      endpoint: Reader & { id: string },
      range: { since: number; until: number; after: number },
      limit: number,
    ) => missed.all({ ...asked(endpoint), endpointId: endpoint.id, ...range, limit }),
    body: (id: string) => body.get({ id }),
    ofMessage: (messageId: string) => ofMessage.all({ messageId }),
    rewrite: (unit: Unit, id: string, body: string) => void rewrite.run(unit, { id, body }),
    /** Deliveries go with their event. True when there may be more. */
    prune: (unit: Unit, before: number, limit: number): boolean => prune.all(unit, { before, limit }).length === limit,
  };
}

export type EventStore = ReturnType<typeof eventStore>;
