import type { Runtime } from "../../kernel/runtime.ts";
import { webhookBacklog } from "./backlog.ts";
import { deliveryService } from "./delivery.service.ts";
import { createDispatcher } from "./dispatcher.ts";
import { keepOutbox } from "./outbox.ts";
import { webhookStores } from "./store/stores.ts";
import { webhookService } from "./webhook.service.ts";

/** The feature as a whole. From here on, every event announced on the bus is kept. */
export function createWebhooks(runtime: Runtime) {
  const stores = webhookStores(runtime.db);
  keepOutbox(runtime, stores);
  const webhooks = webhookService(runtime, stores);
  const deliveries = deliveryService(runtime, stores, webhooks);
  return {
    webhooks,
    deliveries,
    webhookDispatcher: createDispatcher(runtime, stores),
    webhookBacklog: webhookBacklog(stores),
    /** Deliveries that wait, over all projects; what endpoints have yet to read of the log is not among them. */
    webhookQueue: stores.deliveries.queued,
  };
}
