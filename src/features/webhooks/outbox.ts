import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { WebhookFormat } from "../../protocol/enums.ts";
import { WEBHOOK_TEST_TYPE } from "../../protocol/webhook-events.ts";
import type { WebhookEvent } from "./events.ts";
import type { EventStore } from "./store/event.store.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { EndpointRow } from "./store/webhook.table.ts";

type NewEvent = Tenant & {
  type: string;
  at: number;
  messageId: string | null;
  orderKey: string | null;
  body: (eventId: string) => string;
};

/**
 * Stores each event in the transaction of the change that caused it, so that neither exists without the other. Returns
 * whether a project has endpoints in LiveKit's format.
 */
export function keepOutbox({ bus, ids, now, tracing }: Runtime, { endpoints, events }: WebhookStores) {
  /** Endpoints by project. Every chat message needs them, so they are cached until one changes. */
  const cached = new Map<string, EndpointRow[]>();
  bus.on("webhookChanged", ({ projectId }) => void cached.delete(projectId));
  bus.on("changedElsewhere", () => cached.clear());

  /** Includes disabled endpoints, because they may recover events later. */
  function endpointsOf({ projectId, environment }: Tenant, format: WebhookFormat): EndpointRow[] {
    const rows = cached.get(projectId) ?? endpoints.ofProject(projectId);
    cached.set(projectId, rows);
    return rows.filter((row) => row.environment === environment && row.format === format);
  }

  function store(unit: Unit, format: WebhookFormat, event: NewEvent): void {
    const { type, projectId, environment, messageId, orderKey, at: createdAt } = event;
    const subscribers = endpointsOf(event, format).filter(
      (row) => row.events.length === 0 || (row.events as string[]).includes(type),
    );
    if (subscribers.length === 0) return;
    const id = ids.publicId("event");
    const body = event.body(id);
    events.insert(unit, { id, projectId, environment, type, body, messageId, orderKey, createdAt });
    tracing?.remember(id);
    for (const { id: endpointId, status } of subscribers) {
      if (status === "ACTIVE") bus.publish(unit, "webhookDeliveriesDue", { endpointId });
    }
  }

  bus.inTransaction("messageDeleted", (unit, { messageId }) => scrub(unit, events, messageId, iso(now())));
  bus.inTransaction("webhook", (unit, event) =>
    store(unit, "stoa", {
      ...event,
      messageId: messageIdOf(event),
      orderKey: orderKeyOf(event),
      body: (id) => eventBody(id, event),
    }),
  );
  bus.inTransaction("livekitWebhook", (unit, event) => store(unit, "livekit", { ...event, messageId: null }));

  return { hasLivekitEndpoint: (tenant: Tenant): boolean => endpointsOf(tenant, "livekit").length > 0 };
}

/** The body is created once, so that retries and redeliveries send the same bytes. */
function eventBody(
  id: string,
  event: { type: string; projectId: string; environment: string; at: number; data: object },
): string {
  const { type, projectId, environment, at, data } = event;
  return JSON.stringify({ id, type, projectId, environment, createdAt: iso(at), data });
}

function messageIdOf({ type, data }: WebhookEvent): string | null {
  return type === "message.created" || type === "message.updated" ? String(data.message.id) : null;
}

/** Events of one call, or of one ring, are delivered in order. */
function orderKeyOf({ data }: WebhookEvent): string | null {
  if ("ring" in data) return data.ring.id;
  return "callId" in data && typeof data.callId === "string" ? data.callId : null;
}

/** Sent on request to test an endpoint. */
export function testBody(id: string, { id: webhookId, format, ...tenant }: EndpointRow, at: number): string {
  return format === "livekit"
    ? JSON.stringify({ event: WEBHOOK_TEST_TYPE, id, createdAt: String(Math.floor(at / 1000)) })
    : eventBody(id, { ...tenant, type: WEBHOOK_TEST_TYPE, at, data: { webhookId } });
}

/** Removes a deleted message's content from events that are pending or can be sent again. */
function scrub(unit: Unit, events: EventStore, messageId: string, deletedAt: string): void {
  for (const { id, body } of events.ofMessage(messageId)) {
    const event = JSON.parse(body) as { data: { message: Record<string, unknown> } };
    const emptied = { text: null, metadata: null, attachment: null, mentions: [], reactions: [] };
    Object.assign(event.data.message, { ...emptied, deleted: true, deletedAt });
    events.rewrite(unit, id, JSON.stringify(event));
  }
}
