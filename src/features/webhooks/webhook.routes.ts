import { t } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { oneOf } from "../../kernel/http/schema.ts";
import { NEWEST_BY_ID, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import { type RecordScope, sharedRoutes } from "../../kernel/http/shared-routes.ts";
import { REFUSES_UNKNOWN_FIELDS } from "../../kernel/http/unknown-fields.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { DELIVERY_STATUSES } from "../../protocol/enums.ts";
import type { DeliveryService } from "./delivery.service.ts";
import {
  CreateWebhook,
  Delivery,
  DeliveryWithBody,
  Recover,
  Recovered,
  RotateSecret,
  UpdateWebhook,
  Webhook,
  WebhookWithSecret,
} from "./webhook.schema.ts";
import type { WebhookRef, WebhookService } from "./webhook.service.ts";

type WebhookServices = { webhooks: WebhookService; deliveries: DeliveryService };

const { environment: _, ...ofKeys } = CreateWebhook.properties;
const CreateByKey = t.Object(ofKeys, REFUSES_UNKNOWN_FIELDS) as unknown as typeof CreateWebhook;

const refOf = ({ projectId, environment }: RecordScope, { webhookId }: { webhookId: string }): WebhookRef => ({
  projectId,
  environment,
  webhookId,
});

export const webhooksRoutes = (http: Http, { write }: Runtime, { webhooks, deliveries }: WebhookServices) =>
  sharedRoutes(
    http,
    { prefix: "/webhooks", tag: "webhooks", memberTag: "webhooks" },
    (app, { route, pick, environmentQuery, inEnvironment }) => {
      return app
        .get(
          "",
          ({ scope, query, ...context }) => {
            const { environment, ...request } = query;
            return page(context, request, {
              name: "webhooks",
              start: NEWEST_BY_ID,
              read: ([before], limit) =>
                webhooks.list(scope.projectId, scope.environment ?? environment, before, limit),
              position: ({ id }) => [id],
              show: webhooks.present,
            });
          },
          {
            ...route(
              "webhooks:read",
              pick(
                "Webhook endpoints of the key's environment",
                "Webhook endpoints, of both environments unless one is asked for",
              ),
              ["SVC_INVALID_CURSOR"],
            ),
            query: t.Object({ ...environmentQuery, ...pageQuery }),
            response: { 200: t.Array(Webhook) },
          },
        )
        .post(
          "",
          (context) => {
            const { scope, tenant, keyId, author, body } = context;
            const environment = scope.environment ?? body.environment ?? tenant.environment;
            return http.idempotency.mint(context, () =>
              write((unit) =>
                webhooks.create(unit, scope.projectId, { apiKeyId: keyId, ...body, environment }, author),
              ),
            );
          },
          {
            ...route(
              "webhooks:manage",
              "Register an endpoint",
              [
                "SVC_WEBHOOK_URL_REFUSED",
                "SVC_LIMIT_REACHED",
                "SVC_IDEMPOTENCY_IN_PROGRESS",
                "SVC_IDEMPOTENCY_KEY_REUSED",
              ],
              { description: "The signing secret is part of this answer and of no other." },
            ),
            ...inEnvironment,
            body: pick(CreateByKey, CreateWebhook),
            response: { 201: WebhookWithSecret },
          },
        )
        .get("/:webhookId", ({ scope, params }) => webhooks.present(webhooks.find(refOf(scope, params))), {
          response: { 200: Webhook },
          ...route("webhooks:read", "One endpoint", ["SVC_WEBHOOK_NOT_FOUND"]),
        })
        .patch(
          "/:webhookId",
          ({ scope, author, params, body }) =>
            write((unit) => webhooks.update(unit, refOf(scope, params), body, author)),
          {
            body: UpdateWebhook,
            response: { 200: Webhook },
            ...route("webhooks:manage", "Change an endpoint", ["SVC_WEBHOOK_NOT_FOUND", "SVC_WEBHOOK_URL_REFUSED"], {
              description: "`status: ACTIVE` enables it again and clears the failure count.",
            }),
          },
        )
        .delete(
          "/:webhookId",
          async ({ scope, author, params, set }) => {
            await write((unit) => webhooks.delete(unit, refOf(scope, params), author));
            set.status = 204;
          },
          {
            response: { 204: t.Void() },
            ...route("webhooks:manage", "Delete an endpoint and its deliveries", ["SVC_WEBHOOK_NOT_FOUND"]),
          },
        )
        .post(
          "/:webhookId/rotate-secret",
          ({ scope, author, params, body }) =>
            write((unit) => webhooks.rotateSecret(unit, refOf(scope, params), body.overlapSeconds, author)),
          {
            body: RotateSecret,
            response: { 200: WebhookWithSecret },
            ...route("webhooks:manage", "Replace the signing secret", ["SVC_WEBHOOK_NOT_FOUND"], {
              description: "Deliveries carry signatures of both secrets for `overlapSeconds` (a day by default).",
            }),
          },
        )
        .get(
          "/:webhookId/deliveries",
          ({ scope, params, query, ...context }) => {
            const { id } = webhooks.find(refOf(scope, params));
            return page(context, query, {
              name: "deliveries",
              start: NEWEST_BY_ID,
              read: ([before], limit) => deliveries.list(id, query.status, before, limit),
              position: (row) => [row.id],
              show: deliveries.present,
            });
          },
          {
            query: t.Object({ status: t.Optional(oneOf(DELIVERY_STATUSES)), ...pageQuery }),
            response: { 200: t.Array(Delivery) },
            ...route("webhooks:read", "Deliveries of the last 30 days with their attempts, newest first", [
              "SVC_WEBHOOK_NOT_FOUND",
              "SVC_INVALID_CURSOR",
            ]),
          },
        )
        .get(
          "/:webhookId/deliveries/:deliveryId",
          ({ scope, params }) => deliveries.getWithBody(refOf(scope, params), params.deliveryId),
          {
            response: { 200: DeliveryWithBody },
            // The body has the text of messages, which members who only read a project do not get anywhere.
            ...route("webhooks:manage", "One delivery with the body sent", [
              "SVC_WEBHOOK_NOT_FOUND",
              "SVC_DELIVERY_NOT_FOUND",
            ]),
          },
        )
        .post(
          "/:webhookId/deliveries/:deliveryId/redeliver",
          ({ scope, params }) => write((unit) => deliveries.redeliver(unit, refOf(scope, params), params.deliveryId)),
          {
            response: { 200: Delivery },
            ...route("webhooks:manage", "Send a delivery again: same event id, same bytes", [
              "SVC_WEBHOOK_NOT_FOUND",
              "SVC_DELIVERY_NOT_FOUND",
              "SVC_CONFLICT",
            ]),
          },
        )
        .post("/:webhookId/test", ({ scope, params }) => write((unit) => deliveries.test(unit, refOf(scope, params))), {
          response: { 200: Delivery },
          ...route("webhooks:manage", "Send a test event", ["SVC_WEBHOOK_NOT_FOUND"], {
            description:
              "An event of type `webhook.test`, whatever the endpoint's filter and status. Read the delivery for its outcome.",
          }),
        })
        .post("/:webhookId/recover", ({ scope, params, body }) => deliveries.recover(refOf(scope, params), body), {
          body: Recover,
          response: { 200: Recovered },
          ...route("webhooks:manage", "Send again what failed, or happened while the endpoint was disabled", [
            "SVC_WEBHOOK_NOT_FOUND",
            "SVC_CONFLICT",
          ]),
        });
    },
  );
