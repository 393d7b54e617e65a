import type { Db } from "../../../kernel/db/open.ts";
import { deliveryStore } from "./delivery.store.ts";
import { endpointStore } from "./endpoint.store.ts";
import { eventStore } from "./event.store.ts";
import { periodStore } from "./period.store.ts";

export type WebhookStores = ReturnType<typeof webhookStores>;

export function webhookStores(db: Db) {
  return {
    endpoints: endpointStore(db),
    events: eventStore(db),
    periods: periodStore(db),
    deliveries: deliveryStore(db),
  };
}
