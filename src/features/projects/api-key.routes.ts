import { Elysia, t } from "elysia";
import { authorOf } from "../../kernel/http/callers.ts";
import type { Http } from "../../kernel/http/http.ts";
import { EnvironmentQuery } from "../../kernel/http/schema.ts";
import { NEWEST_BY_ID, page, pageQuery } from "../../kernel/http/serving/pages.ts";
import { memberRoute } from "../../kernel/http/shared-routes.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ApiKeyService } from "./api-key.service.ts";
import { ApiKey, CreateApiKey, CreatedApiKey, SigningSecret } from "./project.schema.ts";

export const apiKeyRoutes = ({ guards, idempotency, rateLimit }: Http, { write }: Runtime, apiKeys: ApiKeyService) =>
  new Elysia({ prefix: "/v1/projects/:projectId/api-keys", tags: ["API keys"] })
    .use(guards.member)
    .get(
      "",
      (context) =>
        page(context, context.query, {
          name: "api-keys",
          start: NEWEST_BY_ID,
          read: ([before], limit) => apiKeys.list(context.projectId, context.query.environment, before, limit),
          position: (row) => [row.id],
          show: apiKeys.present,
        }),
      {
        ...memberRoute("api-keys:read", "API keys, of both environments unless one is asked for", [
          "SVC_INVALID_CURSOR",
        ]),
        query: t.Object({ ...pageQuery, ...EnvironmentQuery }),
        response: { 200: t.Array(ApiKey) },
      },
    )
    .post(
      "",
      (context) => {
        const { projectId, body } = context;
        const input = { name: body.name, environment: body.environment ?? context.environment };
        return idempotency.mint(context, () =>
          write((unit) => apiKeys.create(unit, projectId, input, authorOf(context))),
        );
      },
      {
        ...memberRoute(
          "api-keys:manage",
          "Create an API key",
          ["SVC_CONFLICT", "SVC_RATE_LIMITED", "SVC_IDEMPOTENCY_IN_PROGRESS", "SVC_IDEMPOTENCY_KEY_REUSED"],
          {
            description: "The response alone contains the whole key; it cannot be shown again.",
            rateLimit: rateLimit("API_KEYS"),
          },
        ),
        query: t.Object(EnvironmentQuery),
        body: CreateApiKey,
        response: { 201: CreatedApiKey },
      },
    )
    .get(
      "/:keyId/signing-secret",
      (context) =>
        write((unit) => apiKeys.revealSigningSecret(unit, context.projectId, context.params.keyId, authorOf(context))),
      {
        ...memberRoute(
          "api-keys:manage",
          "Show the secret with which a backend signs tokens for LiveKit's SDKs",
          ["SVC_API_KEY_NOT_FOUND"],
          {
            description:
              "Derived from the key, so that it can be shown again; each time is on the audit log. A revoked key has none.",
          },
        ),
        response: { 200: SigningSecret },
      },
    )
    .delete(
      "/:keyId",
      async (context) => {
        const { projectId, params } = context;
        await write((unit) => void apiKeys.revoke(unit, projectId, params.keyId, authorOf(context)));
        context.set.status = 204;
      },
      {
        ...memberRoute("api-keys:manage", "Revoke an API key", ["SVC_CONFLICT", "SVC_API_KEY_NOT_FOUND"]),
      },
    );
