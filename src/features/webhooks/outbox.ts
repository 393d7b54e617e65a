import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { WebhookEvent } from "./events.ts";
import type { EventStore } from "./store/event.store.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { EndpointRow } from "./store/webhook.table.ts";

/** Stores each event in the transaction of the change that caused it, so that neither exists without the other. */
export function keepOutbox({ bus, ids, now, tracing }: Runtime, { endpoints, events }: WebhookStores): void {
  /** Endpoints by project. Every chat message needs them, so they are cached until one changes. */
  const cached = new Map<string, EndpointRow[]>();
  bus.on("webhookChanged", ({ projectId }) => void cached.delete(projectId));
  bus.on("changedElsewhere", () => cached.clear());

  /** Includes disabled endpoints, because they may recover the event later. */
  function subscribersOf({ projectId, environment, type }: WebhookEvent): EndpointRow[] {
    const rows = cached.get(projectId) ?? endpoints.ofProject(projectId);
    cached.set(projectId, rows);
    return rows.filter(
      (row) => row.environment === environment && (row.events.length === 0 || (row.events as string[]).includes(type)),
    );
  }

  bus.inTransaction("messageDeleted", (unit, { messageId }) => scrub(unit, events, messageId, iso(now())));
  bus.inTransaction("webhook", (unit, event) => {
    const { type, projectId, environment } = event;
    const subscribers = subscribersOf(event);
    if (subscribers.length === 0) return;
    const id = ids.publicId("event");
    events.insert(unit, {
      id,
      projectId,
      environment,
      type,
      body: eventBody(id, event),
      messageId: messageIdOf(event),
      orderKey: orderKeyOf(event),
      createdAt: event.at,
    });
    tracing?.remember(id);
    for (const { id: endpointId, status } of subscribers) {
      if (status === "ACTIVE") bus.publish(unit, "webhookDeliveriesDue", { endpointId });
    }
  });
}

/** The body is created once, so that retries and redeliveries send the same bytes. */
export function eventBody(
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

/** Removes a deleted message's content from events that are pending or can be sent again. */
function scrub(unit: Unit, events: EventStore, messageId: string, deletedAt: string): void {
  for (const { id, body } of events.ofMessage(messageId)) {
    const event = JSON.parse(body) as { data: { message: Record<string, unknown> } };
    const emptied = { text: null, metadata: null, attachment: null, mentions: [], reactions: [] };
    Object.assign(event.data.message, { ...emptied, deleted: true, deletedAt });
    events.rewrite(unit, id, JSON.stringify(event));
  }
}
