import { toOpenAPISchema } from "@elysiajs/openapi/openapi";
import type { AnyElysia } from "elysia";
import type { CooperativeTask } from "../../scheduling/cooperative-task.ts";
import type { CredentialKind } from "../guards.ts";
import { createComponents, type SchemaNames } from "./components.ts";
import { ERROR_SCHEMA } from "./docs.ts";
import { exampleOf } from "./examples.ts";
import { completeOperation, type Hooks, type Operation } from "./operation.ts";
import { publicSchema } from "./public-schema.ts";
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
\`ratelimit-limit\`, \`ratelimit-remaining\` and \`ratelimit-reset\`. A misspelt field of a body or parameter of a query is a
400 that names the one you probably meant; other unknown ones are ignored and listed in the header \`stoa-ignored-fields\`. The two sockets are \`GET /v1/rtc\` and
\`GET /v1/chat/ws\`.`;

/** The reference of the API, from the routes: their schemas, errors, and the credentials that their guards accept. */
export function* describeApi(app: AnyElysia, version: string, names: SchemaNames): CooperativeTask<Json> {
  const { refer, components } = yield* createComponents(names);
  const paths = yield* mapCooperatively(yield* pathsOf(app), (verbs) => refer(publicSchema(verbs, true)) as Verbs);
  const webhooks = yield* mapCooperatively(yield* describeWebhooks(), (verbs) => refer(verbs) as Verbs);
  const schemas: Record<string, unknown> = { Error: ERROR_SCHEMA, ...components() };
  const resolve = (ref: string) => schemas[ref.slice(ref.lastIndexOf("/") + 1)] as Json;
  const tags = Object.values(paths).flatMap((verbs) => Object.values(verbs).flatMap((one) => one.tags ?? []));
  const withExamples = (verbs: Verbs) => mapValues(verbs, (each) => illustrate(each, resolve));
  return {
    openapi: "3.1.0",
    info: { title: "Stoa", version, description: DESCRIPTION, license: { name: "MIT", identifier: "MIT" } },
    servers: [{ url: "/" }],
    tags: describeTags(tags),
    paths: inOrderOfTags(yield* mapCooperatively(paths, withExamples), describeTags(tags)),
    webhooks: yield* mapCooperatively(webhooks, withExamples),
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
    // The generator describes a whole app in one go, so it gets an app with a single route.
    const singleRouteApp = { getGlobalRoutes: () => [route], getGlobalDefinitions: () => ({ type: {} }) };
    const { paths } = toOpenAPISchema(singleRouteApp as unknown as AnyElysia, { staticFile: false });
    const generated = (paths[template] as Verbs | undefined)?.[verb];
    if (generated) {
      described[template] = { ...described[template], [verb]: completeOperation(verb, generated, hooks as Hooks) };
    }
    yield;
  }
  return described;
}

/** Adds an example to every schema: path parameters, the body and each response. */
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
    responses: mapValues(operation.responses ?? {}, (response) => content(response) as Json),
  };
}

const OFFER = "v=0\r\no=- 0 0 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n…";

/** Sorts paths by the first tag of their first operation, for reference viewers that keep the document's order. */
function inOrderOfTags(paths: Paths, tags: { name: string }[]): Paths {
  const names = tags.map(({ name }) => name);
  const rank = (verbs: Verbs) => names.indexOf(Object.values(verbs)[0]?.tags?.[0] ?? "");
  return Object.fromEntries(Object.entries(paths).sort(([, a], [, b]) => rank(a) - rank(b)));
}

function mapValues<T, R>(object: Record<string, T>, map: (value: T, key: string) => R): Record<string, R> {
  return Object.fromEntries(Object.entries(object).map(([key, value]) => [key, map(value, key)]));
}

function* mapCooperatively<T, R>(object: Record<string, T>, map: (value: T) => R): CooperativeTask<Record<string, R>> {
  const mapped: Record<string, R> = {};
  for (const [key, value] of Object.entries(object)) {
    mapped[key] = map(value);
    yield;
  }
  return mapped;
}

/** The chapters of the reference: first the API for applications, then administration. */
const TAGS: Record<string, string> = {
  rooms: "Create rooms, list their participants, and mint the tokens to join them.",
  "rooms: moderation": "Act on the participants of a room: remove, mute, change permissions, send data.",
  rtc: "The socket of the browser SDK, and WHIP and WHEP for encoders and players.",
  chat: "Conversations with members, messages, reactions, read state, attachments and search, and the chat socket.",
  "chat: moderation": "Reported messages, blocked users, and blocked words.",
  push: "Web Push: subscriptions of browsers for messages, mentions and rings, and notification settings.",
  "live streams":
    "A live stream is a room and a conversation with hosts and viewers, with the states CREATED, LIVE and ENDED.",
  webhooks: "Endpoints that receive events, and their deliveries.",
  calls: "Calls in rooms, with the call quality of each participant.",
  recordings: "Recordings of rooms: one file for each track, and a timeline.",
  people: "Personal data of your users: read, export and erase it.",
  observability: "Connections and their errors, one by one and as statistics.",
  project: "The project that an API key belongs to.",
  "rooms: dashboard": "Rooms by session, for the dashboard.",
  "chat: dashboard": "Chat by session, for the dashboard: without the content of messages.",
  "live streams: dashboard": "Live streams by session, for the dashboard.",
  "calls: dashboard": "Calls by session, for the dashboard.",
  "recordings: dashboard": "Recordings by session, for the dashboard.",
  "people: dashboard": "Personal data by session, for owners and admins.",
  "observability: dashboard": "Observability by session, for the dashboard.",
  usage: "Participant minutes, and the remaining allowance.",
  projects: "Projects, and the browser origins that may use them.",
  members: "The members of a project and their roles.",
  "API keys": "API keys of a project; a key is shown once, when it is created.",
  audit: "Changes of a project, with actor and address.",
  auth: "Accounts of the dashboard and their sessions. The users of your application have none.",
  fleet: "Media servers, for operators.",
  "fleet: nodes": "Routes for media nodes.",
  health: "For load balancers and monitoring.",
};

const ORDER = Object.keys(TAGS);

/**
 * In the order of the table; a tag that is missing in it comes before those of the dashboard, without a description.
 */
function describeTags(used: Iterable<string>): { name: string; description?: string }[] {
  const rank = (tag: string) => (ORDER.includes(tag) ? ORDER.indexOf(tag) : ORDER.indexOf("rooms: dashboard") - 0.5);
  return [...new Set(used)]
    .sort((a, b) => rank(a) - rank(b))
    .map((name) => ({ name, ...(TAGS[name] === undefined ? {} : { description: TAGS[name] }) }));
}
