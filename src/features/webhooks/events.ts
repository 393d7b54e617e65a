import type { Environment } from "../../protocol/enums.ts";
import type { WebhookEventData, WebhookEventType } from "../../protocol/webhook-events.ts";

/** An event that the project's webhook endpoints can subscribe to. */
export type WebhookEvent = {
  [Type in WebhookEventType]: {
    type: Type;
    projectId: string;
    environment: Environment;
    at: number;
    data: WebhookEventData[Type];
  };
}[WebhookEventType];

declare module "../../kernel/bus.ts" {
  interface TransactionalEvents {
    webhook: WebhookEvent;
  }
  interface BusEvents {
    /** An endpoint was created, changed, enabled, disabled or deleted. */
    webhookChanged: { projectId: string };
    /** An endpoint has deliveries that may be due: new deliveries, a redelivery, or it was enabled again. */
    webhookDeliveriesDue: { endpointId: string };
    /** One attempt to deliver an event is over. */
    webhookAttempted: { projectId: string; environment: Environment; delivered: boolean };
  }
}
