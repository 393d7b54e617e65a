import type { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { DeliveryService } from "./delivery.service.ts";
import { deliveryKeyRoutes } from "./rest/delivery.key-routes.ts";
import { deliveryRoutes } from "./rest/delivery.routes.ts";
import { webhookKeyRoutes } from "./rest/webhook.key-routes.ts";
import { webhookRoutes } from "./rest/webhook.routes.ts";
import type { WebhookService } from "./webhook.service.ts";

/** Endpoints and what was delivered to them. */
export const webhooksRoutes =
  (http: Http, runtime: Runtime, services: { webhooks: WebhookService; deliveries: DeliveryService }) =>
  (app: Elysia) =>
    app
      .use(webhookRoutes(http, runtime, services))
      .use(deliveryRoutes(http, runtime, services))
      .use(webhookKeyRoutes(http, runtime, services))
      .use(deliveryKeyRoutes(http, runtime, services));
