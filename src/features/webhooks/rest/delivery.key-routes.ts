import { Elysia, t } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { oneOf } from "../../../kernel/http/schema.ts";
import { NEWEST, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { DELIVERY_STATUSES } from "../../../protocol/enums.ts";
import type { DeliveryService } from "../delivery.service.ts";
import type { WebhookService } from "../webhook.service.ts";
import { Delivery, DeliveryWithBody, Recover, Recovered } from "./webhook.schema.ts";

/** What was delivered to the endpoints of the key's environment. */
export const deliveryKeyRoutes = (
  { guards }: Http,
  { write }: Runtime,
  { webhooks, deliveries }: { webhooks: WebhookService; deliveries: DeliveryService },
) =>
  new Elysia({ prefix: "/v1/webhooks/:webhookId", tags: ["webhooks"] })
    .use(guards.apiKey)
    // Of another environment it is not there; everything below may then go by the project alone.
    .derive(({ caller, params }) => {
      const { webhookId = "" } = params as { webhookId?: string };
      return { endpoint: webhooks.find(caller.projectId, webhookId, caller.environment) };
    })
    .get(
      "/deliveries",
      ({ endpoint, query, ...context }) =>
        page(context, query, {
          name: "deliveries",
          shape: ["string"],
          read: (after, limit) => deliveries.list(endpoint.id, query.status, String(after?.[0] ?? NEWEST), limit),
          position: ({ delivery }) => [delivery.id],
          show: deliveries.show,
        }),
      {
        query: t.Object({ status: t.Optional(oneOf(DELIVERY_STATUSES)), ...pageQuery }),
        response: { 200: t.Array(Delivery) },
        ...documented("Deliveries of the last 30 days with their attempts, newest first", [
          "SVC_WEBHOOK_NOT_FOUND",
          "SVC_INVALID_CURSOR",
        ]),
      },
    )
    .get(
      "/deliveries/:deliveryId",
      ({ endpoint, params }) => deliveries.read(endpoint.projectId, endpoint.id, params.deliveryId),
      {
        response: { 200: DeliveryWithBody },
        ...documented("One delivery with the body sent", ["SVC_WEBHOOK_NOT_FOUND", "SVC_DELIVERY_NOT_FOUND"]),
      },
    )
    .post(
      "/deliveries/:deliveryId/redeliver",
      ({ endpoint, params }) =>
        write((unit) => deliveries.redeliver(unit, endpoint.projectId, endpoint.id, params.deliveryId)),
      {
        response: { 200: Delivery },
        ...documented("Send a delivery again: same event id, same bytes", [
          "SVC_WEBHOOK_NOT_FOUND",
          "SVC_DELIVERY_NOT_FOUND",
          "SVC_CONFLICT",
        ]),
      },
    )
    .post("/test", ({ endpoint }) => write((unit) => deliveries.test(unit, endpoint.projectId, endpoint.id)), {
      response: { 200: Delivery },
      ...documented(
        "Send a test event",
        ["SVC_WEBHOOK_NOT_FOUND"],
        "An event of type `webhook.test`, whatever the endpoint's filter and status. Read the delivery for its outcome.",
      ),
    })
    .post("/recover", ({ endpoint, body }) => deliveries.recover(endpoint.projectId, endpoint.id, body), {
      body: Recover,
      response: { 200: Recovered },
      ...documented("Send again what failed, or happened while the endpoint was disabled", [
        "SVC_WEBHOOK_NOT_FOUND",
        "SVC_CONFLICT",
      ]),
    });
