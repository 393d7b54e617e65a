import type { Runtime } from "../../kernel/runtime.ts";
import { deliveryService } from "./delivery.service.ts";
import { createDispatcher } from "./dispatcher.ts";
import { keepOutbox } from "./outbox.ts";
import { webhookStores } from "./store/stores.ts";
import { webhookService } from "./webhook.service.ts";

/** Webhook endpoints and deliveries. From here on, every webhook event that is published on the bus is stored. */
export function createWebhooks(runtime: Runtime) {
  const stores = webhookStores(runtime.db);
  keepOutbox(runtime, stores);
  const webhooks = webhookService(runtime, stores);
  const deliveries = deliveryService(runtime, stores, webhooks);
  return {
    webhooks,
    deliveries,
    webhookDispatcher: createDispatcher(runtime, stores),
    webhookBacklog: deliveries.backlog,
    /** Pending deliveries of all projects, without the events that endpoints have yet to read from the log. */
    webhookQueue: stores.deliveries.pendingCount,
  };
}
