import type { TObject } from "@sinclair/typebox";
import { Elysia, t } from "elysia";
import { authorOf, authorOfKey } from "../../kernel/http/callers.ts";
import { permit } from "../../kernel/http/guards.ts";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import { EnvironmentQuery, oneOf } from "../../kernel/http/schema.ts";
import { NEWEST_BY_ID, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import { REFUSES_UNKNOWN_FIELDS } from "../../kernel/http/unknown-fields.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { DELIVERY_STATUSES, type Environment } from "../../protocol/enums.ts";
import type { ErrorCode } from "../../protocol/errors.ts";
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
/** `keyId` is the API key of the request. */
type Scope = { projectId: string; environment?: Environment; keyId?: string };

const ListQuery = t.Object({ ...EnvironmentQuery, ...pageQuery });
const { environment: _, ...ofKeys } = CreateWebhook.properties;

/** The same routes for members of the project, and for its backends, whose API key determines the environment. */
export const webhooksRoutes = (http: Http, runtime: Runtime, services: WebhookServices) => (app: Elysia) =>
  app
    .use(
      asMemberRoutes(
        webhookRoutes(forMembers(http), http, runtime, services, {
          listQuery: ListQuery,
          listSummary: "Webhook endpoints, of both environments unless one is asked for",
          create: { query: t.Object(EnvironmentQuery), body: CreateWebhook },
          mayRead: { transform: permit("webhooks:read") },
          mayManage: { transform: permit("webhooks:manage") },
          projectErrors: ["SVC_PROJECT_NOT_FOUND"],
          permissionErrors: ["SVC_PERMISSION_DENIED"],
        }),
      ),
    )
    .use(
      webhookRoutes(forKeys(http), http, runtime, services, {
        listQuery: t.Object(pageQuery) as unknown as typeof ListQuery,
        listSummary: "Webhook endpoints of the key's environment",
        create: {
          body: t.Object(ofKeys, REFUSES_UNKNOWN_FIELDS) as unknown as typeof CreateWebhook,
        },
        mayRead: {},
        mayManage: {},
        projectErrors: [],
        permissionErrors: [],
      }),
    );

const forKeys = ({ guards }: Http) =>
  new Elysia({ prefix: "/v1/webhooks", tags: ["webhooks"] })
    .use(guards.apiKey)
    .derive(({ caller, info }) => ({ scope: caller as Scope, author: authorOfKey({ caller, info }) }));

type ScopedApp = ReturnType<typeof forKeys>;

const forMembers = ({ guards }: Http) =>
  new Elysia({ prefix: "/v1/projects/:projectId/webhooks", tags: ["webhooks"] })
    .use(guards.member)
    .derive(({ caller, info, projectId, environment }) => ({
      scope: { projectId } as Scope,
      author: authorOf({ caller, info, environment }),
    })) as unknown as ScopedApp;

type KeyRoutes = ReturnType<typeof webhookRoutes>;
type MemberRoutes =
  KeyRoutes extends Elysia<"/v1/webhooks", infer S, infer D, infer M, infer Routes, infer E, infer V>
    ? Routes extends { v1: { webhooks: infer Webhooks } }
      ? Elysia<"", S, D, M, { v1: { projects: { ":projectId": { webhooks: Webhooks } } } }, E, V>
      : never
    : never;

/** The dashboard's client is typed by the paths of the app: the type has the path that `forMembers` serves. */
const asMemberRoutes = (routes: KeyRoutes) => routes as unknown as MemberRoutes;

type Access = {
  listQuery: typeof ListQuery;
  listSummary: string;
  create: { query?: TObject; body: typeof CreateWebhook };
  mayRead: object;
  mayManage: object;
  projectErrors: ErrorCode[];
  permissionErrors: ErrorCode[];
};

function webhookRoutes(
  app: ScopedApp,
  { idempotency }: Http,
  { write }: Runtime,
  { webhooks, deliveries }: WebhookServices,
  { listQuery, listSummary, create, mayRead, mayManage, projectErrors, permissionErrors }: Access,
) {
  const refOf = ({ projectId, environment }: Scope, { webhookId }: { webhookId: string }): WebhookRef => ({
    projectId,
    environment,
    webhookId,
  });
  const notFound: ErrorCode[] = [...projectErrors, "SVC_WEBHOOK_NOT_FOUND", ...permissionErrors];

  return app
    .get(
      "",
      ({ scope, query, ...context }) => {
        const { environment, ...request } = query;
        return page(context, request, {
          name: "webhooks",
          start: NEWEST_BY_ID,
          read: ([before], limit) => webhooks.list(scope.projectId, scope.environment ?? environment, before, limit),
          position: ({ id }) => [id],
          show: webhooks.present,
        });
      },
      {
        ...mayRead,
        query: listQuery,
        response: { 200: t.Array(Webhook) },
        ...documented(listSummary, [...projectErrors, "SVC_INVALID_CURSOR"]),
      },
    )
    .post(
      "",
      (context) => {
        const { scope, author, body } = context;
        const environment = scope.environment ?? body.environment ?? author.environment;
        return idempotency.mint(context, () =>
          write((unit) =>
            webhooks.create(unit, scope.projectId, { apiKeyId: scope.keyId, ...body, environment }, author),
          ),
        );
      },
      {
        ...mayManage,
        ...create,
        response: { 201: WebhookWithSecret },
        ...documented(
          "Register an endpoint",
          [
            "SVC_WEBHOOK_URL_REFUSED",
            "SVC_LIMIT_REACHED",
            ...projectErrors,
            ...permissionErrors,
            "SVC_IDEMPOTENCY_IN_PROGRESS",
            "SVC_IDEMPOTENCY_KEY_REUSED",
          ],
          "The signing secret is part of this answer and of no other.",
        ),
      },
    )
    .get("/:webhookId", ({ scope, params }) => webhooks.present(webhooks.find(refOf(scope, params))), {
      ...mayRead,
      response: { 200: Webhook },
      ...documented("One endpoint", notFound),
    })
    .patch(
      "/:webhookId",
      ({ scope, author, params, body }) => write((unit) => webhooks.update(unit, refOf(scope, params), body, author)),
      {
        ...mayManage,
        body: UpdateWebhook,
        response: { 200: Webhook },
        ...documented(
          "Change an endpoint",
          [...notFound, "SVC_WEBHOOK_URL_REFUSED"],
          "`status: ACTIVE` enables it again and clears the failure count.",
        ),
      },
    )
    .delete(
      "/:webhookId",
      async ({ scope, author, params, set }) => {
        await write((unit) => webhooks.delete(unit, refOf(scope, params), author));
        set.status = 204;
      },
      {
        ...mayManage,
        response: { 204: t.Void() },
        ...documented("Delete an endpoint and its deliveries", notFound),
      },
    )
    .post(
      "/:webhookId/rotate-secret",
      ({ scope, author, params, body }) =>
        write((unit) => webhooks.rotateSecret(unit, refOf(scope, params), body.overlapSeconds, author)),
      {
        ...mayManage,
        body: RotateSecret,
        response: { 200: WebhookWithSecret },
        ...documented(
          "Replace the signing secret",
          notFound,
          "Deliveries carry signatures of both secrets for `overlapSeconds` (a day by default).",
        ),
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
        ...mayRead,
        query: t.Object({ status: t.Optional(oneOf(DELIVERY_STATUSES)), ...pageQuery }),
        response: { 200: t.Array(Delivery) },
        ...documented("Deliveries of the last 30 days with their attempts, newest first", [
          ...notFound,
          "SVC_INVALID_CURSOR",
        ]),
      },
    )
    .get(
      "/:webhookId/deliveries/:deliveryId",
      ({ scope, params }) => deliveries.getWithBody(refOf(scope, params), params.deliveryId),
      {
        ...mayRead,
        response: { 200: DeliveryWithBody },
        ...documented("One delivery with the body sent", [...notFound, "SVC_DELIVERY_NOT_FOUND"]),
      },
    )
    .post(
      "/:webhookId/deliveries/:deliveryId/redeliver",
      ({ scope, params }) => write((unit) => deliveries.redeliver(unit, refOf(scope, params), params.deliveryId)),
      {
        ...mayManage,
        response: { 200: Delivery },
        ...documented("Send a delivery again: same event id, same bytes", [
          ...notFound,
          "SVC_DELIVERY_NOT_FOUND",
          "SVC_CONFLICT",
        ]),
      },
    )
    .post("/:webhookId/test", ({ scope, params }) => write((unit) => deliveries.test(unit, refOf(scope, params))), {
      ...mayManage,
      response: { 200: Delivery },
      ...documented(
        "Send a test event",
        notFound,
        "An event of type `webhook.test`, whatever the endpoint's filter and status. Read the delivery for its outcome.",
      ),
    })
    .post("/:webhookId/recover", ({ scope, params, body }) => deliveries.recover(refOf(scope, params), body), {
      ...mayManage,
      body: Recover,
      response: { 200: Recovered },
      ...documented("Send again what failed, or happened while the endpoint was disabled", [
        ...notFound,
        "SVC_CONFLICT",
      ]),
    });
}
