import type { Tenant } from "../../kernel/tenant.ts";
import type { Environment } from "../../protocol/enums.ts";
import type { LivekitEventType, WebhookEventType } from "../../protocol/webhook-events.ts";
import type { WebhookEventData } from "../../protocol/webhook-payloads.ts";

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

/** An event for endpoints in LiveKit's format. Events with the same `orderKey` are delivered one after the other. */
type LivekitWebhook = Tenant & {
  type: LivekitEventType;
  at: number;
  orderKey: string;
  body: (eventId: string) => string;
};

declare module "../../kernel/bus.ts" {
  interface TransactionalEvents {
    webhook: WebhookEvent;
    livekitWebhook: LivekitWebhook;
  }
  interface BusEvents {
    /** An endpoint was created, changed, enabled, disabled or deleted. */
    webhookChanged: { projectId: string };
    /** An endpoint has deliveries that may be due: new deliveries, a redelivery, or it was enabled again. */
    webhookDeliveriesDue: { endpointId: string };
    webhookAttempted: { projectId: string; environment: Environment; delivered: boolean };
  }
}
