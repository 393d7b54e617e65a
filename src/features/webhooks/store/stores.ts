import type { Db } from "../../../kernel/db/open.ts";
import { type DeliveryStore, deliveryStore } from "./delivery.store.ts";
import { type EndpointStore, endpointStore } from "./endpoint.store.ts";
import { type EventStore, eventStore } from "./event.store.ts";
import { type PeriodStore, periodStore } from "./period.store.ts";

export type WebhookStores = {
  endpoints: EndpointStore;
  events: EventStore;
  periods: PeriodStore;
  deliveries: DeliveryStore;
};

export function webhookStores(db: Db): WebhookStores {
  return {
    endpoints: endpointStore(db),
    events: eventStore(db),
    periods: periodStore(db),
    deliveries: deliveryStore(db),
  };
}
