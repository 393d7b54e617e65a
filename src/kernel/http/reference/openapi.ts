import { toOpenAPISchema } from "@elysiajs/openapi/openapi";
import type { AnyElysia } from "elysia";
import type { CooperativeTask } from "../../scheduling/cooperative-task.ts";
import type { CredentialKind } from "../guards.ts";
import { createComponents, type SchemaNames } from "./components.ts";
import { ERROR_SCHEMA } from "./docs.ts";
import { exampleOf } from "./examples.ts";
import { completeOperation, type Hooks, type Operation } from "./operation.ts";
import { publicSchema } from "./public-schema.ts";
import { describeTags } from "./tags.ts";
import { describeWebhooks } from "./webhooks.ts";

type Json = Record<string, unknown>;
type Verbs = Record<string, Operation>;
type Paths = Record<string, Verbs>;

const METHODS = ["get", "post", "put", "patch", "delete"];

const SCHEMES: Record<CredentialKind, string> = {
  apiKey: "A project's API key, `svk_<env>_<publicId>.<secret>`. For servers; its environment decides what it reaches.",
  session: "Access token of a dashboard session, from `POST /v1/auth/login`.",
  chatToken: "Chat token of one end user, from `POST /v1/chat/tokens`.",
  rtcToken: "RTC token of one participant, from `POST /v1/rooms/{roomId}/rtc-tokens`.",
  sfuSecret: "`SFU_REGISTRATION_SECRET`, held by media nodes.",
};

const DESCRIPTION = `Rooms, chat and live streams for your own application. [The guides](/docs) show how to use it.

Every response carries \`x-request-id\`; every error is the envelope \`Error\`, whose \`code\` is what to switch on.
Lists are arrays, newest first; \`link\` with \`rel="next"\` leads to the next page. Rate-limited routes answer
\`ratelimit-limit\`, \`ratelimit-remaining\` and \`ratelimit-reset\`. The two sockets are \`GET /v1/rtc\` and
\`GET /v1/chat/ws\`.`;

/** The reference of the API, from the routes as they are: schemas, errors, and the credential that each guard takes. */
export function* describeApi(app: AnyElysia, version: string, names: SchemaNames): CooperativeTask<Json> {
  const { refer, components } = yield* createComponents(names);
  const paths = yield* mapInPieces(yield* pathsOf(app), (verbs) => refer(publicSchema(verbs, true)) as Verbs);
  const webhooks = yield* mapInPieces(yield* describeWebhooks(), (verbs) => refer(verbs) as Verbs);
  const schemas: Record<string, unknown> = { Error: ERROR_SCHEMA, ...components() };
  const resolve = (ref: string) => schemas[ref.slice(ref.lastIndexOf("/") + 1)] as Json;
  const tags = Object.values(paths).flatMap((verbs) => Object.values(verbs).flatMap((one) => one.tags ?? []));
  const withExamples = (verbs: Verbs) => mapValues(verbs, (each) => illustrate(each, resolve));
  return {
    openapi: "3.1.0",
    info: { title: "Stoa", version, description: DESCRIPTION, license: { name: "MIT", identifier: "MIT" } },
    servers: [{ url: "/" }],
    tags: describeTags(tags),
    paths: inOrderOfTags(yield* mapInPieces(paths, withExamples), describeTags(tags)),
    webhooks: yield* mapInPieces(webhooks, withExamples),
    components: {
      schemas,
      securitySchemes: mapValues(SCHEMES, (description) => ({ type: "http", scheme: "bearer", description })),
    },
  };
}

function* pathsOf(app: AnyElysia): CooperativeTask<Paths> {
  const described: Paths = {};
  for (const route of app.routes) {
    const { method, path, hooks } = route;
    const verb = method.toLowerCase();
    const template = path.replace(/:([^/]+)/g, "{$1}");
    if (!METHODS.includes(verb)) continue;
    // The generator takes an app and describes it as a whole; it gets one of a single route.
    const alone = { getGlobalRoutes: () => [route], getGlobalDefinitions: () => ({ type: {} }) };
    const { paths } = toOpenAPISchema(alone as unknown as AnyElysia, { staticFile: false });
    const generated = (paths[template] as Verbs | undefined)?.[verb];
    if (generated) {
      described[template] = { ...described[template], [verb]: completeOperation(verb, generated, hooks as Hooks) };
    }
    yield;
  }
  return described;
}

/** An example beside every schema: of parameters in the path, the body and each answer. */
function illustrate(operation: Operation, resolve: (ref: string) => Json): Operation {
  const content = (holder: Json | undefined): Json | undefined =>
    holder?.content === undefined
      ? holder
      : {
          ...holder,
          content: mapValues(holder.content as Record<string, Json>, (one, type) => ({
            example: type === "application/sdp" ? OFFER : exampleOf(one.schema as Json, resolve),
            ...one,
          })),
        };
  return {
    ...operation,
    parameters: operation.parameters?.map((one) =>
      one.in === "path" ? { ...one, example: exampleOf(one.schema as Json, resolve, String(one.name)) } : one,
    ),
    ...(operation.requestBody === undefined ? {} : { requestBody: content(operation.requestBody as Json) }),
    responses: mapValues(operation.responses ?? {}, (answer) => content(answer) as Json),
  };
}

const OFFER = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n…";

/** Paths by the first tag of their first operation: readers that keep the document's order show chapters in ours. */
function inOrderOfTags(paths: Paths, tags: { name: string }[]): Paths {
  const names = tags.map(({ name }) => name);
  const rank = (verbs: Verbs) => names.indexOf(Object.values(verbs)[0]?.tags?.[0] ?? "");
  return Object.fromEntries(Object.entries(paths).sort(([, a], [, b]) => rank(a) - rank(b)));
}

function mapValues<T, R>(object: Record<string, T>, map: (value: T, key: string) => R): Record<string, R> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value, key)]));
}

function* mapInPieces<T, R>(object: Record<string, T>, map: (value: T) => R): CooperativeTask<Record<string, R>> {
  const mapped: Record<string, R> = {};
  for (const [key, value] of Object.entries(object)) {
    mapped[key] = map(value);
    yield;
  }
  return mapped;
}
