import { Elysia, t } from "elysia";
import { permit } from "../../../kernel/http/guards.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { oneOf } from "../../../kernel/http/schema.ts";
import { NEWEST, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { DELIVERY_STATUSES } from "../../../protocol/enums.ts";
import type { DeliveryService } from "../delivery.service.ts";
import type { WebhookService } from "../webhook.service.ts";
import { Delivery, DeliveryWithBody, Recover, Recovered } from "./webhook.schema.ts";

const NOT_FOUND = ["SVC_PROJECT_NOT_FOUND", "SVC_WEBHOOK_NOT_FOUND", "SVC_PERMISSION_DENIED"] as const;

export const deliveryRoutes = (
  { guards }: Http,
  { write }: Runtime,
  { webhooks, deliveries }: { webhooks: WebhookService; deliveries: DeliveryService },
) =>
  new Elysia({ prefix: "/v1/projects/:projectId/webhooks/:webhookId", tags: ["webhooks"] })
    .use(guards.member)
    .get(
      "/deliveries",
      ({ projectId, params, query, ...context }) => {
        const { id } = webhooks.find(projectId, params.webhookId);
        return page(context, query, {
          name: "deliveries",
          shape: ["string"],
          read: (after, limit) => deliveries.list(id, query.status, String(after?.[0] ?? NEWEST), limit),
          position: ({ delivery }) => [delivery.id],
          show: deliveries.show,
        });
      },
      {
        transform: permit("webhooks:read"),
        query: t.Object({ status: t.Optional(oneOf(DELIVERY_STATUSES)), ...pageQuery }),
        response: { 200: t.Array(Delivery) },
        ...documented("Deliveries of the last 30 days with their attempts, newest first", [
          ...NOT_FOUND,
          "SVC_INVALID_CURSOR",
        ]),
      },
    )
    .get(
      "/deliveries/:deliveryId",
      ({ projectId, params }) => deliveries.read(projectId, params.webhookId, params.deliveryId),
      {
        transform: permit("webhooks:read"),
        response: { 200: DeliveryWithBody },
        ...documented("One delivery with the body sent", [...NOT_FOUND, "SVC_DELIVERY_NOT_FOUND"]),
      },
    )
    .post(
      "/deliveries/:deliveryId/redeliver",
      ({ projectId, params }) =>
        write((unit) => deliveries.redeliver(unit, projectId, params.webhookId, params.deliveryId)),
      {
        transform: permit("webhooks:manage"),
        response: { 200: Delivery },
        ...documented("Send a delivery again: same event id, same bytes", [
          ...NOT_FOUND,
          "SVC_DELIVERY_NOT_FOUND",
          "SVC_CONFLICT",
        ]),
      },
    )
    .post("/test", ({ projectId, params }) => write((unit) => deliveries.test(unit, projectId, params.webhookId)), {
      transform: permit("webhooks:manage"),
      response: { 200: Delivery },
      ...documented(
        "Send a test event",
        [...NOT_FOUND],
        "An event of type `webhook.test`, whatever the endpoint's filter and status. Read the delivery for its outcome.",
      ),
    })
    .post("/recover", ({ projectId, params, body }) => deliveries.recover(projectId, params.webhookId, body), {
      transform: permit("webhooks:manage"),
      body: Recover,
      response: { 200: Recovered },
      ...documented("Send again what failed, or happened while the endpoint was disabled", [
        ...NOT_FOUND,
        "SVC_CONFLICT",
      ]),
    });
