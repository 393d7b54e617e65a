import { iso } from "../../kernel/time/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import { WEBHOOK_TEST_TYPE } from "../../protocol/webhook-events.ts";
import { eventBody } from "./outbox.ts";
import type { ListedDelivery } from "./store/delivery.store.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { EndpointRow } from "./store/webhook.table.ts";
import type { WebhookService } from "./webhook.service.ts";

const KEPT_MS = 30 * 24 * 3_600_000;
/** Bounds how long one unit of work holds the writer. */
const BATCH = 500;

export type DeliveryService = ReturnType<typeof deliveryService>;

export function deliveryService(runtime: Runtime, stores: WebhookStores, webhooks: WebhookService) {
  const { bus, ids, now, write } = runtime;
  const { endpoints, events, deliveries } = stores;

  function find(projectId: string, webhookId: string, deliveryId: string): ListedDelivery {
    const row = deliveries.find(webhooks.find(projectId, webhookId).id, deliveryId);
    if (!row) throw new ApiError("SVC_DELIVERY_NOT_FOUND");
    return row;
  }

  /** While an endpoint is disabled nothing is sent to it but tests. */
  function requireActive(endpoint: EndpointRow): void {
    if (endpoint.status === "ACTIVE") return;
    throw new ApiError("SVC_CONFLICT", "The endpoint is disabled. Enable it first.", { status: endpoint.status });
  }

  /** `next` is where to go on, null at the end. */
  function recoverBatch(unit: Unit, endpoint: EndpointRow, range: { since: number; until: number; after: number }) {
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
    show,

    /** With the body as it is sent. */
    read(projectId: string, webhookId: string, deliveryId: string) {
      const row = find(projectId, webhookId, deliveryId);
      return { ...show(row), body: events.body(row.delivery.eventId)?.body ?? "" };
    },

    /** Reaches the endpoint whatever its filter and status. */
    test(unit: Unit, projectId: string, webhookId: string) {
      const endpoint = webhooks.find(projectId, webhookId);
      const at = now();
      const eventId = ids.publicId("event");
      const event = { type: WEBHOOK_TEST_TYPE, projectId, environment: endpoint.environment, at };
      events.insert(unit, {
        id: eventId,
        projectId,
        environment: endpoint.environment,
        type: WEBHOOK_TEST_TYPE,
        body: eventBody(eventId, { ...event, data: { webhookId } }),
        messageId: null,
        orderKey: null,
        createdAt: at,
      });
      const id = ids.uuid();
      deliveries.insert(unit, { id, endpointId: endpoint.id, eventId, forced: true, at });
      bus.publish(unit, "webhookDeliveriesDue", { endpointId: endpoint.id });
      return show(find(projectId, webhookId, id));
    },

    /** The same event and the same bytes, with all attempts again. */
    redeliver(unit: Unit, projectId: string, webhookId: string, deliveryId: string) {
      const { delivery } = find(projectId, webhookId, deliveryId);
      const endpoint = webhooks.find(projectId, webhookId);
      if (!delivery.forced) requireActive(endpoint);
      deliveries.reopen(unit, delivery.id, now());
      bus.publish(unit, "webhookDeliveriesDue", { endpointId: endpoint.id });
      return show(find(projectId, webhookId, deliveryId));
    },

    /** Sends again what failed, and what happened while the endpoint was disabled. Makes its own units of work. */
    async recover(projectId: string, webhookId: string, range: { since?: string; until?: string }) {
      const until = range.until === undefined ? now() : Date.parse(range.until);
      const { missedSince } = webhooks.find(projectId, webhookId);
      // Without a time: from where the failures began. Nothing was missed since the last recovery: nothing to send.
      const since = range.since === undefined ? (missedSince ?? until) : Date.parse(range.since);
      if (since > until) throw invalid("until", "must not be before since");
      let after: number | null = 0;
      let recovered = 0;
      while (after !== null) {
        const from: number = after;
        const batch = await write((unit) => {
          const endpoint = webhooks.find(projectId, webhookId);
          requireActive(endpoint);
          return recoverBatch(unit, endpoint, { since, until, after: from });
        });
        recovered += batch.recovered;
        after = batch.next;
      }
      if (range.until === undefined && since <= (missedSince ?? since)) {
        await write((unit) => endpoints.recordRecovery(unit, webhookId));
      }
      return { recovered };
    },

    /** Forgets events and their deliveries after 30 days. Makes its own units of work. */
    async prune(at: number): Promise<void> {
      while (await write((unit) => events.prune(unit, at - KEPT_MS, BATCH))) {
        // Another batch.
      }
    },
  };
}

function show({ delivery, eventType }: ListedDelivery) {
  return {
    id: delivery.id,
    eventId: delivery.eventId,
    eventType,
    status: delivery.status,
    attempts: delivery.attempts,
    attemptCount: delivery.attemptCount,
    nextAttemptAt: iso(delivery.nextAttemptAt),
    lastError: delivery.lastError,
    createdAt: iso(delivery.createdAt),
    deliveredAt: iso(delivery.deliveredAt),
  };
}
