import { Elysia, t } from "elysia";
import { refuseUnknownFields } from "../../../kernel/http/body.ts";
import { authorOfKey } from "../../../kernel/http/callers.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { NEWEST, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { WebhookService } from "../webhook.service.ts";
import { CreateWebhook, RotateSecret, UpdateWebhook, Webhook, WebhookWithSecret } from "./webhook.schema.ts";

const { url, events, description } = CreateWebhook.properties;

/** The same as by session, for a server: its key decides the environment. */
export const webhookKeyRoutes = (
  { guards, idempotency }: Http,
  { write }: Runtime,
  { webhooks }: { webhooks: WebhookService },
) =>
  new Elysia({ prefix: "/v1/webhooks", tags: ["webhooks"] })
    .use(guards.apiKey)
    .get(
      "",
      ({ caller: { projectId, environment }, query, ...context }) =>
        page(context, query, {
          name: "webhooks",
          shape: ["string"],
          read: (after, limit) => webhooks.list(projectId, environment, String(after?.[0] ?? NEWEST), limit),
          position: ({ id }) => [id],
          show: webhooks.show,
        }),
      {
        query: t.Object(pageQuery),
        response: { 200: t.Array(Webhook) },
        ...documented("Webhook endpoints of the key's environment", ["SVC_INVALID_CURSOR"]),
      },
    )
    .post(
      "",
      (context) => {
        const { projectId, environment } = context.caller;
        const input = { ...context.body, environment };
        return idempotency.mint(context, () =>
          write((unit) => webhooks.create(unit, projectId, input, authorOfKey(context))),
        );
      },
      {
        body: t.Object({ url, events, description }),
        beforeHandle: refuseUnknownFields(["url", "events", "description"]),
        response: { 201: WebhookWithSecret },
        ...documented(
          "Register an endpoint",
          ["SVC_WEBHOOK_URL_REFUSED", "SVC_LIMIT_REACHED", "SVC_IDEMPOTENCY_IN_PROGRESS", "SVC_IDEMPOTENCY_KEY_REUSED"],
          "The signing secret is part of this answer and of no other.",
        ),
      },
    )
    .get(
      "/:webhookId",
      ({ caller, params }) => webhooks.show(webhooks.find(caller.projectId, params.webhookId, caller.environment)),
      { response: { 200: Webhook }, ...documented("One endpoint", ["SVC_WEBHOOK_NOT_FOUND"]) },
    )
    .patch(
      "/:webhookId",
      (context) => {
        const { caller, params, body } = context;
        return write((unit) => {
          const { id } = webhooks.find(caller.projectId, params.webhookId, caller.environment);
          return webhooks.update(unit, caller.projectId, id, body, authorOfKey(context));
        });
      },
      {
        body: UpdateWebhook,
        beforeHandle: refuseUnknownFields(["url", "events", "description", "status"]),
        response: { 200: Webhook },
        ...documented(
          "Change an endpoint",
          ["SVC_WEBHOOK_NOT_FOUND", "SVC_WEBHOOK_URL_REFUSED"],
          "`status: ACTIVE` enables it again and clears the failure count.",
        ),
      },
    )
    .delete(
      "/:webhookId",
      async (context) => {
        const { caller, params } = context;
        await write((unit) => {
          const { id } = webhooks.find(caller.projectId, params.webhookId, caller.environment);
          webhooks.delete(unit, caller.projectId, id, authorOfKey(context));
        });
        context.set.status = 204;
      },
      {
        response: { 204: t.Void() },
        ...documented("Delete an endpoint and its deliveries", ["SVC_WEBHOOK_NOT_FOUND"]),
      },
    )
    .post(
      "/:webhookId/rotate-secret",
      (context) => {
        const { caller, params, body } = context;
        return write((unit) => {
          const { id } = webhooks.find(caller.projectId, params.webhookId, caller.environment);
          return webhooks.rotateSecret(unit, caller.projectId, id, body.overlapSeconds, authorOfKey(context));
        });
      },
      {
        body: RotateSecret,
        response: { 200: WebhookWithSecret },
        ...documented(
          "Replace the signing secret",
          ["SVC_WEBHOOK_NOT_FOUND"],
          "Deliveries carry signatures of both secrets for `overlapSeconds` (a day by default).",
        ),
      },
    );
