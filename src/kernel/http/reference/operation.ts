import { unwrapSchema } from "@elysiajs/openapi/openapi";
import type { ErrorCode } from "../../../protocol/errors.ts";
import { type CredentialKind, credentialsOf, guardErrorsOf } from "../guards.ts";
import { bodyTypesOf, errorResponses, errorsOf } from "./docs.ts";

type Json = Record<string, unknown>;
export type Operation = Json & {
  operationId?: string;
  tags?: string[];
  responses?: Record<string, Json>;
  parameters?: Json[];
};

export type Hooks = { detail?: unknown; body?: unknown; query?: unknown; response?: unknown; transform?: unknown };

/** Adds what the generator omits to an operation, and removes internal fields. */
export function completeOperation(verb: string, generated: Operation, hooks: Hooks): Operation {
  const { "x-errors": _, "x-body-types": __, ...operation } = generated;
  const credentials = credentialsOf(hooks);
  // A body that cannot be parsed is rejected on every route with a guard, even without a body schema.
  const readsBody = hooks.body !== undefined || (verb !== "get" && credentials.length > 0);
  const codes = new Set<ErrorCode>([
    ...(errorsOf(hooks.detail) ?? []),
    ...(readsBody || hooks.query !== undefined ? (["SVC_VALIDATION_FAILED"] as const) : []),
    ...(readsBody ? BODY_ERRORS : []),
    ...credentials.flatMap((kind) => CREDENTIAL_ERRORS[kind]),
    ...guardErrorsOf(hooks),
    "SVC_INTERNAL_ERROR",
  ]);
  const responses =
    hooks.response === undefined ? responsesWithoutSchema(verb, hooks.detail) : (generated.responses ?? {});
  const described = Object.entries(responses).map(([status, response]) => {
    const { content, ...rest } = response;
    return [status, { ...rest, ...(BODILESS.has(status) ? {} : { content }), description: SUCCESS[status] }];
  });
  // The generator does not know the media type of bodies, because they have a custom parser.
  const schema = hooks.body === undefined ? undefined : unwrapSchema(hooks.body as never);
  const keyed = codes.has("SVC_IDEMPOTENCY_KEY_REUSED") ? [IDEMPOTENCY_KEY] : [];
  return {
    ...operation,
    operationId: generated.operationId?.replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    ...(schema === undefined
      ? {}
      : { requestBody: { required: true, content: { [mediaTypeOf(schema)]: { schema } } } }),
    parameters: [...(generated.parameters ?? []), ...keyed],
    security: credentials.map((kind) => ({ [kind]: [] })),
    responses: { ...Object.fromEntries(described), ...errorResponses(codes) },
  };
}

const mediaTypeOf = (schema: object) =>
  (schema as { contentMediaType?: string }).contentMediaType ?? "application/json";

/** Responses without a schema. A GET without body types is a socket; other routes then have no body. */
function responsesWithoutSchema(verb: string, detail: unknown): Record<string, Json> {
  const types = Object.entries(bodyTypesOf(detail));
  if (types.length === 0) return { [verb === "get" ? 101 : 204]: {} };
  const body = (type: string) => ({ content: { [type]: { schema: type.endsWith("json") ? {} : { type: "string" } } } });
  return Object.fromEntries(types.map(([status, type]) => [status, type === null ? {} : body(type)]));
}

const BODILESS = new Set(["101", "204", "304", "307"]);

const SUCCESS: Record<string, string> = {
  101: "The connection becomes a WebSocket",
  200: "OK",
  201: "Created",
  202: "Accepted; it happens after the response",
  204: "Done; no body",
  206: "The requested range",
  304: "Not modified",
  307: "Found at another address, in the header `location`",
  503: "Not ready",
};

const BODY_ERRORS = ["SVC_PAYLOAD_TOO_LARGE", "SVC_UNSUPPORTED_MEDIA_TYPE", "SVC_OVERLOADED"] as const;
const TOKEN_ERRORS = ["SVC_AUTH_ERROR", "SVC_TOKEN_EXPIRED", "SVC_TOKEN_REVOKED", "SVC_ORIGIN_NOT_ALLOWED"] as const;
const CREDENTIAL_ERRORS: Record<CredentialKind, readonly ErrorCode[]> = {
  apiKey: ["SVC_AUTH_ERROR", "SVC_ORIGIN_NOT_ALLOWED"],
  session: TOKEN_ERRORS,
  chatToken: TOKEN_ERRORS,
  rtcToken: TOKEN_ERRORS,
  sfuSecret: ["SVC_AUTH_ERROR"],
};

const IDEMPOTENCY_KEY = {
  name: "Idempotency-Key",
  in: "header",
  required: false,
  description: "Repeating a request with the same key replays the first response",
  schema: { type: "string", minLength: 1, maxLength: 255 },
};
