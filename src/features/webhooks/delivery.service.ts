import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { DAY_MS, iso } from "../../kernel/time/clock.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import { WEBHOOK_TEST_TYPE } from "../../protocol/webhook-events.ts";
import { testBody } from "./outbox.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { DeliveryRow, EndpointRow } from "./store/webhook.table.ts";
import type { WebhookRef, WebhookService } from "./webhook.service.ts";

const RETENTION_MS = 30 * DAY_MS;
/** Limits how long one unit of work blocks the writer. */
const BATCH = 500;
/** Unread events are counted up to this number. */
const MAX_BACKLOG = 1000;

/** Events from one time to another, after the one with the number `after`. */
type EventRange = { since: number; until: number; after: number };

export type DeliveryService = ReturnType<typeof deliveryService>;

export function deliveryService(runtime: Runtime, stores: WebhookStores, webhooks: WebhookService) {
  const { bus, ids, now, write } = runtime;
  const { endpoints, events, periods, deliveries } = stores;

  function find(endpoint: EndpointRow, deliveryId: string): DeliveryRow {
    const row = deliveries.get(deliveryId);
    if (row?.endpointId !== endpoint.id) throw new ApiError("SVC_DELIVERY_NOT_FOUND");
    return row;
  }

  function present(row: DeliveryRow) {
    return {
      id: row.id,
      eventId: row.eventId,
      eventType: events.type(row.eventId),
      status: row.status,
      attempts: row.attempts,
      attemptCount: row.attemptCount,
      nextAttemptAt: iso(row.nextAttemptAt),
      lastError: row.lastError,
      createdAt: iso(row.createdAt),
      deliveredAt: iso(row.deliveredAt),
    };
  }

  /** A disabled endpoint only gets test events. */
  function requireActive(endpoint: EndpointRow): void {
    if (endpoint.status === "ACTIVE") return;
    throw new ApiError("SVC_CONFLICT", "The endpoint is disabled. Enable it first.", { status: endpoint.status });
  }

  /** `next` is the event to continue after, null at the end. */
  function recoverBatch(
    unit: Unit,
    endpoint: EndpointRow,
    range: EventRange,
  ): { recovered: number; next: number | null } {
    const missed = events.missed(endpoint, range, BATCH);
    const at = now();
    for (const { id: eventId, deliveryId } of missed) {
      if (deliveryId !== null) deliveries.reopen(unit, deliveryId, at);
      else deliveries.insert(unit, { id: ids.uuid(), endpointId: endpoint.id, eventId, forced: false, at });
    }
    if (missed.length > 0) bus.publish(unit, "webhookDeliveriesDue", { endpointId: endpoint.id });
    return { recovered: missed.length, next: missed.length < BATCH ? null : (missed.at(-1)?.seq ?? null) };
  }

  return {
    list: deliveries.list,
    present,

    getWithBody(ref: WebhookRef, deliveryId: string) {
      const row = find(webhooks.find(ref), deliveryId);
      return { ...present(row), body: events.body(row.eventId)?.body ?? "" };
    },

    /** Sends a test event, regardless of the endpoint's filter and status. */
    test(unit: Unit, ref: WebhookRef) {
      const endpoint = webhooks.find(ref);
      const { projectId, environment } = endpoint;
      const at = now();
      const eventId = ids.publicId("event");
      events.insert(unit, {
        type: WEBHOOK_TEST_TYPE,
        projectId,
        environment,
        id: eventId,
        body: testBody(eventId, endpoint, at),
        messageId: null,
        orderKey: null,
        createdAt: at,
      });
      const id = ids.uuid();
      deliveries.insert(unit, { id, endpointId: endpoint.id, eventId, forced: true, at });
      bus.publish(unit, "webhookDeliveriesDue", { endpointId: endpoint.id });
      return present(find(endpoint, id));
    },

    /** Sends the same event with the same bytes again, in a new round of attempts. */
    redeliver(unit: Unit, ref: WebhookRef, deliveryId: string) {
      const endpoint = webhooks.find(ref);
      const delivery = find(endpoint, deliveryId);
      if (!delivery.forced) requireActive(endpoint);
      deliveries.reopen(unit, delivery.id, now());
      bus.publish(unit, "webhookDeliveriesDue", { endpointId: endpoint.id });
      return present(find(endpoint, deliveryId));
    },

    /**
     * Sends events again that failed or occurred while the endpoint was disabled. The method opens its own units of
     * work.
     */
    async recover(ref: WebhookRef, range: { since?: string; until?: string }) {
      const until = range.until === undefined ? now() : Date.parse(range.until);
      const { id, missedSince } = webhooks.find(ref);
      // The default is the first failure since the last recovery; without a failure there is nothing to send.
      const since = range.since === undefined ? (missedSince ?? until) : Date.parse(range.since);
      if (since > until) throw invalid("until", "must not be before since");
      let recovered = 0;
      let next: number | null = 0;
      while (next !== null) {
        const after: number = next;
        const batch = await write((unit) => {
          const endpoint = webhooks.find(ref);
          requireActive(endpoint);
          return recoverBatch(unit, endpoint, { since, until, after });
        });
        recovered += batch.recovered;
        next = batch.next;
      }
      if (range.until === undefined && since <= (missedSince ?? since)) {
        await write((unit) => endpoints.recordRecovery(unit, id));
      }
      return { recovered };
    },

    /** A project's undelivered events, and the number of its failing endpoints. */
    backlog(projectId: string) {
      const rows = endpoints.ofProject(projectId);
      const waiting = deliveries.waiting(projectId);
      let unreadCount = 0;
      const times: number[] = waiting.oldestAt === null ? [] : [waiting.oldestAt];
      for (const endpoint of rows) {
        for (const { position, endSeq } of periods.of(endpoint.id)) {
          if (unreadCount >= MAX_BACKLOG) break;
          const end = endSeq ?? Number.MAX_SAFE_INTEGER;
          const unread = events.unread(endpoint, position, end, MAX_BACKLOG - unreadCount);
          unreadCount += unread.count;
          if (unread.oldestAt !== null) times.push(unread.oldestAt);
        }
      }
      const failing = rows.filter(
        ({ consecutiveFailures, status, disabledReason }) =>
          consecutiveFailures > 0 || (status === "DISABLED" && disabledReason !== "manual"),
      );
      return {
        pending: waiting.pending + unreadCount,
        oldestAt: times.length === 0 ? null : Math.min(...times),
        failingEndpoints: failing.length,
      };
    },

    /** Deletes events and their deliveries after 30 days. The method opens its own units of work. */
    async prune(at: number): Promise<void> {
      while (await write((unit) => events.prune(unit, at - RETENTION_MS, BATCH)));
    },
  };
}
