import { iso } from "../../kernel/time/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { WebhookEvent } from "./events.ts";
import type { EventStore } from "./store/event.store.ts";
import type { WebhookStores } from "./store/stores.ts";
import type { EndpointRow } from "./store/webhook.table.ts";

type OutboxStores = Pick<WebhookStores, "endpoints" | "events">;

/** Writes each event into the transaction of the change that caused it: neither exists without the other. */
export function keepOutbox({ bus, ids, now, tracing }: Runtime, { endpoints, events }: OutboxStores): void {
  /** By project. Asked for every message of the chat, so they stay in memory until one changes. */
  const known = new Map<string, EndpointRow[]>();
  bus.on("webhookChanged", ({ projectId }) => void known.delete(projectId));
  bus.on("changedElsewhere", () => known.clear());

  /** Whoever wants it, disabled endpoints included: those may recover it later. */
  function readersOf({ projectId, environment, type }: WebhookEvent): EndpointRow[] {
    const rows = known.get(projectId) ?? endpoints.ofProject(projectId);
    known.set(projectId, rows);
    return rows.filter(
      (row) => row.environment === environment && (row.events.length === 0 || (row.events as string[]).includes(type)),
    );
  }

  bus.inTransaction("messageDeleted", (unit, { messageId }) => scrub(unit, events, messageId, iso(now())));
  bus.inTransaction("webhook", (unit, fact) => {
    const { type, projectId, environment } = fact;
    const readers = readersOf(fact);
    if (readers.length === 0) return;
    const id = ids.publicId("event");
    events.insert(unit, {
      id,
      projectId,
      environment,
      type,
      body: eventBody(id, fact),
      messageId: messageOf(fact),
      orderKey: orderKeyOf(fact),
      createdAt: fact.at,
    });
    tracing?.remember(id);
    for (const { id: endpointId, status } of readers)
      if (status === "ACTIVE") bus.publish(unit, "webhookDeliveriesDue", { endpointId });
  });
}

/** Made once: retries and redeliveries send these very bytes. */
export function eventBody(
  id: string,
  event: { type: string; projectId: string; environment: string; at: number; data: object },
): string {
  const { type, projectId, environment, at, data } = event;
  return JSON.stringify({ id, type, projectId, environment, createdAt: iso(at), data });
}

function messageOf(fact: WebhookEvent): string | null {
  if (fact.type !== "message.created" && fact.type !== "message.updated") return null;
  return String(fact.data.message.id);
}

/** What happens in a call, or to a ring, is told in the order in which it happened. */
function orderKeyOf(fact: WebhookEvent): string | null {
  if ("ring" in fact.data) return fact.data.ring.id;
  return "callId" in fact.data && typeof fact.data.callId === "string" ? fact.data.callId : null;
}

/** A deleted message's content is gone everywhere, from events that still wait or can be sent again too. */
function scrub(unit: Unit, events: EventStore, messageId: string, deletedAt: string): void {
  for (const { id, body } of events.ofMessage(messageId)) {
    const event = JSON.parse(body) as { data: { message: Record<string, unknown> } };
    const gone = {
      text: null,
      metadata: null,
      attachment: null,
      mentions: [],
      reactions: [],
      deleted: true,
      deletedAt,
    };
    Object.assign(event.data.message, gone);
    events.rewrite(unit, id, JSON.stringify(event));
  }
}
