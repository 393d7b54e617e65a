import { toOpenAPISchema, unwrapSchema } from "@elysiajs/openapi/openapi";
import type { AnyElysia } from "elysia";
import type { ErrorCode } from "../../../protocol/errors.ts";
import { type CredentialKind, credentialsOf, guardErrorsOf } from "../guards.ts";
import { answersOf, ERROR_SCHEMA, errorResponses, errorsOf } from "./docs.ts";

type Json = Record<string, unknown>;
type Operation = Json & {
  tags?: string[];
  responses?: Record<string, Json>;
  parameters?: Json[];
};

type Hooks = { detail?: unknown; body?: unknown; query?: unknown; response?: unknown; transform?: unknown };

const METHODS = ["get", "post", "put", "patch", "delete"];

const SCHEMES: Record<CredentialKind, string> = {
  apiKey: "A project's API key, `svk_<env>_<publicId>.<secret>`. For servers; its environment decides what it reaches.",
  session: "Access token of a dashboard session, from `POST /v1/auth/login`.",
  chatToken: "Chat token of one end user, from `POST /v1/chat/tokens`.",
  rtcToken: "RTC token of one participant, from `POST /v1/rooms/{roomId}/rtc-tokens`.",
  sfuSecret: "`SFU_REGISTRATION_SECRET`, held by media nodes.",
};

const DESCRIPTION = `Rooms, chat and live streams for your own application.

Every response carries \`x-request-id\`; every error is the envelope \`Error\`, whose \`code\` is what to switch on.
Lists are arrays, newest first; \`link\` with \`rel="next"\` leads to the next page. Rate-limited routes answer
\`ratelimit-limit\`, \`ratelimit-remaining\` and \`ratelimit-reset\`. The two sockets are \`GET /v1/rtc\` and
\`GET /v1/chat/ws\`.`;

/** The reference of the API, from the routes as they are: schemas, errors, and the credential that each guard takes. */
export function describeApi(app: AnyElysia, version: string): Json {
  const { paths } = toOpenAPISchema(app, { staticFile: false });
  const described: Record<string, Record<string, Operation>> = {};
  const tags = new Set<string>();
  for (const { method, path, hooks } of app.routes) {
    const verb = method.toLowerCase();
    const template = path.replace(/:([^/]+)/g, "{$1}");
    const generated = (paths[template] as Record<string, Operation> | undefined)?.[verb];
    if (!generated || !METHODS.includes(verb)) continue;
    const operation = complete(verb, generated, hooks as Hooks);
    described[template] = { ...described[template], [verb]: operation };
    for (const tag of operation.tags ?? []) tags.add(tag);
  }
  return {
    openapi: "3.1.0",
    info: { title: "Stoa", version, description: DESCRIPTION, license: { name: "MIT", identifier: "MIT" } },
    servers: [{ url: "/" }],
    tags: [...tags].sort((a, b) => Number(a === "health") - Number(b === "health")).map((name) => ({ name })),
    paths: publicSchema(described, true),
    components: {
      schemas: { Error: ERROR_SCHEMA },
      securitySchemes: Object.fromEntries(
        Object.entries(SCHEMES).map(([name, description]) => [name, { type: "http", scheme: "bearer", description }]),
      ),
    },
  };
}

/** What the generator leaves out of an operation, or says too much of. */
function complete(verb: string, generated: Operation, hooks: Hooks): Operation {
  const { "x-errors": _, "x-answers": __, ...operation } = generated;
  const credentials = credentialsOf(hooks);
  // Guards refuse a body that cannot be read, whether the route wants one or not.
  const readsBody = hooks.body !== undefined || (verb !== "get" && credentials.length > 0);
  const codes = new Set<ErrorCode>([
    ...(errorsOf(hooks.detail) ?? []),
    ...(readsBody || hooks.query !== undefined ? (["SVC_VALIDATION_FAILED"] as const) : []),
    ...(readsBody ? BODY_ERRORS : []),
    ...credentials.flatMap((kind) => CREDENTIAL_ERRORS[kind]),
    ...guardErrorsOf(hooks),
    "SVC_INTERNAL_ERROR",
  ]);
  const answers = hooks.response === undefined ? unvalidated(verb, hooks.detail) : (generated.responses ?? {});
  const described = Object.entries(answers).map(([status, answer]) => [
    status,
    { ...answer, description: SUCCESS[status] },
  ]);
  // With a parser of our own in place, the generator no longer knows what bodies are made of.
  const schema = hooks.body === undefined ? undefined : unwrapSchema(hooks.body as never);
  const keyed = codes.has("SVC_IDEMPOTENCY_KEY_REUSED") ? [IDEMPOTENCY_KEY] : [];
  return {
    ...operation,
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

/** Answers that no schema describes. A GET that says nothing of them is a socket; anything else has no body. */
function unvalidated(verb: string, detail: unknown): Record<string, Json> {
  const said = Object.entries(answersOf(detail));
  if (said.length === 0) return { [verb === "get" ? 101 : 204]: {} };
  const body = (type: string) => ({ content: { [type]: { schema: type.endsWith("json") ? {} : { type: "string" } } } });
  return Object.fromEntries(said.map(([status, type]) => [status, type === null ? {} : body(type)]));
}

const SUCCESS: Record<string, string> = {
  101: "The connection becomes a WebSocket",
  200: "OK",
  201: "Created",
  202: "Accepted; it happens after the answer",
  204: "Done; there is no body",
  206: "The part asked for",
  304: "Not modified",
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
  description: "Repeating a request with the same key replays the first answer",
  schema: { type: "string", minLength: 1, maxLength: 255 },
};

/** Keywords that only the server's own validator reads give way to those that everyone knows. */
function publicSchema(value: unknown, isNameMap = false): unknown {
  if (Array.isArray(value)) return value.map((item) => publicSchema(item));
  if (value === null || typeof value !== "object") return value;
  const written = isNameMap ? value : asWritten(value);
  const known = Object.entries(written).flatMap(([key, item]): [string, unknown][] => {
    if (isNameMap) return [[key, publicSchema(item)]];
    if (key === "codePoints") return lengthsOf(item as [number, number]);
    if ((key === "error" && typeof item === "string") || (key === "pattern" && "codePoints" in written)) return [];
    return [[key, publicSchema(item, key === "properties")]];
  });
  return Object.fromEntries(known);
}

/** Undoes what the framework adds for itself: text that stands for a number, and a null that its list does not hold. */
function asWritten(schema: object): object {
  const { anyOf, type, enum: list } = schema as Json;
  const [first, written] = Array.isArray(anyOf) ? (anyOf as Json[]) : [];
  if (anyOf !== undefined && first?.type === "string" && STAND_INS.has(String(first.format))) {
    return { ...schema, anyOf: undefined, ...written };
  }
  const missesNull = Array.isArray(list) && Array.isArray(type) && type.includes("null") && !list.includes(null);
  return missesNull ? { ...schema, enum: [...list, null] } : schema;
}

const STAND_INS = new Set(["integer", "numeric", "boolean"]);

/** JSON Schema counts characters as we do; the validator, which counts UTF-16 units, has a pattern instead. */
function lengthsOf([min, max]: [number, number]): [string, unknown][] {
  return min === 0
    ? [["maxLength", max]]
    : [
        ["minLength", min],
        ["maxLength", max],
      ];
}
