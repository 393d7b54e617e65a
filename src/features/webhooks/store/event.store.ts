import type { Db } from "../../../kernel/db/open.ts";
import { changing, inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Environment, WebhookFormat } from "../../../protocol/enums.ts";
import { EVENT_TYPES_OF } from "../../../protocol/webhook-events.ts";
import { type EventRow, webhookEvents } from "./webhook.table.ts";

/** Selects events by project, environment and type; an empty list selects all types of the format. */
type Reader = { projectId: string; environment: Environment; format: WebhookFormat; events: readonly string[] };
type ReaderValues = [projectId: string, environment: Environment, types: string];

const READABLE = `e.project_id = ?1 AND e.environment = ?2 AND e.type IN (SELECT value FROM json_each(?3))`;
const RANGE = `FROM webhook_events e WHERE ${READABLE} AND e.seq > ?4 AND e.seq <= ?5 ORDER BY e.seq LIMIT ?6`;

/** The log of events: the outbox, and the source of redeliveries. */
export function eventStore({ $client: client }: Db) {
  const last = reading<{ seq: number | null }, []>(client, "SELECT max(seq) AS seq FROM webhook_events");
  const range = reading<{ seq: number; id: string }, [...ReaderValues, number, number, number]>(
    client,
    `SELECT e.seq, e.id ${RANGE}`,
  );
  const unread = reading<{ count: number; oldestAt: number | null }, [...ReaderValues, number, number, number]>(
    client,
    `SELECT count(*) AS count, min(created_at) AS oldestAt FROM (SELECT e.created_at ${RANGE})`,
  );
  const missed = reading<
    { seq: number; id: string; deliveryId: string | null },
    [...ReaderValues, string, number, number, number, number]
  >(
    client,
    `SELECT e.seq, e.id, d.id AS deliveryId FROM webhook_events e
       LEFT JOIN webhook_deliveries d ON d.event_id = e.id AND d.endpoint_id = ?4
       WHERE ${READABLE} AND e.seq > ?5 AND e.created_at >= ?6 AND e.created_at <= ?7
         AND (d.status IS NULL OR d.status = 'FAILED')
         -- The endpoint will still read these events from its open periods.
         AND NOT EXISTS (SELECT 1 FROM webhook_periods p WHERE p.endpoint_id = ?4 AND e.seq > p.position
           AND e.seq <= coalesce(p.end_seq, e.seq))
       ORDER BY e.seq LIMIT ?8`,
  );
  const body = reading<{ body: string; createdAt: number }, [string]>(
    client,
    "SELECT body, created_at AS createdAt FROM webhook_events WHERE id = ?",
  );
  const type = reading<{ type: string }, [string]>(client, "SELECT type FROM webhook_events WHERE id = ?");
  const ofMessage = reading<{ id: string; body: string }, [string]>(
    client,
    "SELECT id, body FROM webhook_events WHERE message_id = ?",
  );
  const rewrite = changing<[string, string]>(client, "UPDATE webhook_events SET body = ? WHERE id = ?");
  const prune = changing<[number, number]>(
    client,
    "DELETE FROM webhook_events WHERE seq IN (SELECT seq FROM webhook_events WHERE created_at < ? LIMIT ?)",
  );

  const valuesOf = ({ projectId, environment, format, events }: Reader): ReaderValues => [
    projectId,
    environment,
    JSON.stringify(events.length === 0 ? EVENT_TYPES_OF[format] : events),
  ];

  return {
    insert: inserter<Omit<EventRow, "seq">>(client, webhookEvents),
    /** `seq` of the newest event; 0 before the first. */
    lastSeq: (): number => last.get()?.seq ?? 0,
    /** The reader's events in a range of the log, oldest first. */
    read: (reader: Reader, after: number, until: number, limit: number) =>
      range.all(...valuesOf(reader), after, until, limit),
    /** Counts the reader's events in a range of the log, up to `limit`. */
    unread: (reader: Reader, after: number, until: number, limit: number) =>
      unread.get(...valuesOf(reader), after, until, limit) ?? { count: 0, oldestAt: null },
    /** The events that the endpoint never got because deliveries failed or the endpoint was disabled, oldest first. */
    missed: (
      endpoint: Reader & { id: string },
      { since, until, after }: { since: number; until: number; after: number },
      limit: number,
    ) => missed.all(...valuesOf(endpoint), endpoint.id, after, since, until, limit),
    body: (id: string) => body.get(id),
    type: (id: string): string => type.get(id)?.type ?? "",
    ofMessage: (messageId: string) => ofMessage.all(messageId),
    rewrite: (unit: Unit, id: string, body: string) => void rewrite.run(unit, body, id),
    /** Deletes events with their deliveries. Returns true when more rows may match. */
    prune: (unit: Unit, before: number, limit: number): boolean => prune.run(unit, before, limit).changes >= limit,
  };
}

export type EventStore = ReturnType<typeof eventStore>;
