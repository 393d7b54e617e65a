import { Elysia, t } from "elysia";
import { refuseUnknownFields } from "../../../kernel/http/body.ts";
import { authorOf } from "../../../kernel/http/callers.ts";
import { permit } from "../../../kernel/http/guards.ts";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { EnvironmentQuery } from "../../../kernel/http/schema.ts";
import { NEWEST, page, pageQuery } from "../../../kernel/http/serving/pages.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import type { WebhookService } from "../webhook.service.ts";
import { CreateWebhook, RotateSecret, UpdateWebhook, Webhook, WebhookWithSecret } from "./webhook.schema.ts";

const NOT_FOUND = ["SVC_PROJECT_NOT_FOUND", "SVC_WEBHOOK_NOT_FOUND", "SVC_PERMISSION_DENIED"] as const;

export const webhookRoutes = (
  { guards, idempotency }: Http,
  { write }: Runtime,
  { webhooks }: { webhooks: WebhookService },
) =>
  new Elysia({ prefix: "/v1/projects/:projectId/webhooks", tags: ["webhooks"] })
    .use(guards.member)
    .get(
      "",
      ({ projectId, query, ...context }) =>
        page(context, query, {
          name: "webhooks",
          shape: ["string"],
          read: (after, limit) => webhooks.list(projectId, query.environment, String(after?.[0] ?? NEWEST), limit),
          position: ({ id }) => [id],
          show: webhooks.show,
        }),
      {
        transform: permit("webhooks:read"),
        query: t.Object({ ...EnvironmentQuery, ...pageQuery }),
        response: { 200: t.Array(Webhook) },
        ...documented("Webhook endpoints, of both environments unless one is asked for", [
          "SVC_PROJECT_NOT_FOUND",
          "SVC_INVALID_CURSOR",
        ]),
      },
    )
    .post(
      "",
      (context) => {
        const { projectId, body } = context;
        const input = { ...body, environment: body.environment ?? context.environment };
        return idempotency.mint(context, () =>
          write((unit) => webhooks.create(unit, projectId, input, authorOf(context))),
        );
      },
      {
        transform: permit("webhooks:manage"),
        beforeHandle: refuseUnknownFields(["url", "environment", "events", "description"]),
        query: t.Object(EnvironmentQuery),
        body: CreateWebhook,
        response: { 201: WebhookWithSecret },
        ...documented(
          "Register an endpoint",
          [
            "SVC_WEBHOOK_URL_REFUSED",
            "SVC_LIMIT_REACHED",
            "SVC_PROJECT_NOT_FOUND",
            "SVC_PERMISSION_DENIED",
            "SVC_IDEMPOTENCY_IN_PROGRESS",
            "SVC_IDEMPOTENCY_KEY_REUSED",
          ],
          "The signing secret is part of this answer and of no other.",
        ),
      },
    )
    .get("/:webhookId", ({ projectId, params }) => webhooks.show(webhooks.find(projectId, params.webhookId)), {
      transform: permit("webhooks:read"),
      response: { 200: Webhook },
      ...documented("One endpoint", [...NOT_FOUND]),
    })
    .patch(
      "/:webhookId",
      (context) => {
        const { projectId, params, body } = context;
        return write((unit) => webhooks.update(unit, projectId, params.webhookId, body, authorOf(context)));
      },
      {
        transform: permit("webhooks:manage"),
        beforeHandle: refuseUnknownFields(["url", "events", "description", "status"]),
        body: UpdateWebhook,
        response: { 200: Webhook },
        ...documented(
          "Change an endpoint",
          [...NOT_FOUND, "SVC_WEBHOOK_URL_REFUSED"],
          "`status: ACTIVE` enables it again and clears the failure count.",
        ),
      },
    )
    .delete(
      "/:webhookId",
      async (context) => {
        const { projectId, params } = context;
        await write((unit) => webhooks.delete(unit, projectId, params.webhookId, authorOf(context)));
        context.set.status = 204;
      },
      {
        transform: permit("webhooks:manage"),
        response: { 204: t.Void() },
        ...documented("Delete an endpoint and its deliveries", [...NOT_FOUND]),
      },
    )
    .post(
      "/:webhookId/rotate-secret",
      (context) => {
        const { projectId, params, body } = context;
        return write((unit) =>
          webhooks.rotateSecret(unit, projectId, params.webhookId, body.overlapSeconds, authorOf(context)),
        );
      },
      {
        transform: permit("webhooks:manage"),
        body: RotateSecret,
        response: { 200: WebhookWithSecret },
        ...documented(
          "Replace the signing secret",
          [...NOT_FOUND],
          "Deliveries carry signatures of both secrets for `overlapSeconds` (a day by default).",
        ),
      },
    );
