import type { Runtime } from "../runtime.ts";
import type { WebhookStores } from "./stores.ts";

const BATCH = 200;

/** Makes the events of the outbox into one delivery per endpoint that wants them. */
export type Queue = {
  /** Resolves when the outbox is empty. */
  run(): Promise<void>;
};

export function createQueue(
  { bus, ids, now, write }: Runtime,
  { endpoints, events, deliveries }: WebhookStores,
): Queue {
  let dirty = false;
  let working: Promise<void> | null = null;

  /** A unit of work: deliveries exist exactly when their event has left the outbox. True when it may hold more. */
  function queueBatch(): boolean {
    const waiting = events.outbox(BATCH);
    const at = now();
    for (const event of waiting) {
      for (const endpointId of endpoints.activeFor(event)) {
        deliveries.insert({ id: ids.uuid(), endpointId, eventId: event.id, forced: false, at });
        bus.announce("webhookDeliveriesDue", { endpointId });
      }
      events.markQueued(event.id, at);
    }
    return waiting.length === BATCH;
  }

  async function work(): Promise<void> {
    try {
      while (dirty) {
        dirty = false;
        if (await write(queueBatch)) dirty = true;
      }
    } finally {
      working = null;
    }
  }

  return {
    run() {
      dirty = true;
      working ??= work();
      return working;
    },
  };
}
