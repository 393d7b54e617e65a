import type { Db } from "../kernel/db/open.ts";
import { type DeliveryStore, deliveryStore } from "./delivery.store.ts";
import { type EndpointStore, endpointStore } from "./endpoint.store.ts";
import { type EventStore, eventStore } from "./event.store.ts";

export type WebhookStores = { endpoints: EndpointStore; events: EventStore; deliveries: DeliveryStore };

export function webhookStores(db: Db): WebhookStores {
  return { endpoints: endpointStore(db), events: eventStore(db), deliveries: deliveryStore(db) };
}
