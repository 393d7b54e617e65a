import type { TSchema } from "@sinclair/typebox";
import type { AnyElysia } from "elysia";
import { BunAdapter } from "elysia/adapter/bun";
import type { ProjectRole } from "../../protocol/enums.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import { jsonProblem } from "../json.ts";
import type { Now } from "../time/clock.ts";
import type { Timers } from "../time/timers.ts";
import { credentialsOf, type Renew, renewalOf } from "./guards.ts";
import type { RequestInfo } from "./request-info.ts";
import { checkUnknownFields, checkUnknownParameters, IGNORED_FIELDS_HEADER } from "./unknown-fields.ts";

export const MAX_BODY_BYTES = 1024 * 1024;
export const SMALL_BODY_BYTES = 16 * 1024;
/** The maximum memory of all larger bodies in transfer. */
const SHARED_BYTES = 64 * 1024 * 1024;
const LARGE_BODY_TIMEOUT_MS = 30_000;

function unreadable(problem: string): ApiError {
  return new ApiError("SVC_VALIDATION_FAILED", problem, { details: [{ field: "body", message: problem }] });
}

type ReadBody = (request: Request) => Promise<string>;

/**
 * Small bodies are always read; larger ones share a limit and have to be received in time. Otherwise clients that never
 * finish their bodies would fill the memory with a mebibyte for every connection.
 */
export function createBodyReader({ after }: Timers, sharedBytes = SHARED_BYTES): ReadBody {
  let held = 0;

  async function readLarge(body: ReadableStream<Uint8Array>): Promise<string> {
    const reader = body.getReader();
    const chunks: Uint8Array[] = [];
    let size = 0;
    const late = Promise.withResolvers<null>();
    const cancelLate = after(LARGE_BODY_TIMEOUT_MS, () => late.resolve(null));
    try {
      for (;;) {
        const part = await Promise.race([reader.read(), late.promise]);
        if (part === null) throw unreadable("The body did not arrive in time.");
        if (part.done) return Buffer.concat(chunks).toString();
        chunks.push(part.value);
        size += part.value.byteLength;
        held += part.value.byteLength;
        if (size > MAX_BODY_BYTES) throw new ApiError("SVC_PAYLOAD_TOO_LARGE");
        if (size > SMALL_BODY_BYTES && held > sharedBytes) throw new ApiError("SVC_OVERLOADED");
      }
    } finally {
      held -= size;
      cancelLate();
      reader.cancel().catch(() => {});
    }
  }

  return async (request) => {
    if (!request.body) return "";
    const declared = request.headers.get("content-length");
    if (declared !== null && Number(declared) > MAX_BODY_BYTES) throw new ApiError("SVC_PAYLOAD_TOO_LARGE");
    try {
      if (declared !== null && Number(declared) <= SMALL_BODY_BYTES) return await request.text();
      return await readLarge(request.body);
    } catch (error) {
      if (error instanceof ApiError) throw error;
      // The client has disconnected, so this error is not received.
      throw unreadable("The body did not arrive.");
    }
  };
}

/** Below this path bodies are files of any type and size, which their route streams. */
export const UPLOAD_PATH = "/v1/storage/";

/** Below these paths (WHIP and WHEP) a body is an SDP offer. */
const SDP_PATH = /^\/(?:whip|whep)\//;
const SDP_TYPES: Record<string, string> = { POST: "application/sdp", PATCH: "application/trickle-ice-sdpfrag" };

const rawBodies = new WeakMap<Request, string>();

/** The body's text as received; idempotency keys are compared with it. */
export function rawBody(request: Request): string {
  return rawBodies.get(request) ?? "";
}

type BodyContext = {
  request: Request;
  path: string;
  params: unknown;
  info?: RequestInfo;
  role?: ProjectRole;
  archived?: boolean;
  body: unknown;
  set: { headers: Record<string, string | number | undefined> };
};

/**
 * A small body may take hours to arrive: it costs nothing. Its sender may have been removed meanwhile, or the key may
 * have been revoked because it was stolen.
 */
const LATE_MS = 1_000;

/**
 * A route's last `transform`, after its guard: a client without a credential gets 401 and no information about the
 * body.
 */
const readBodies = (read: ReadBody, schema: object | undefined, renew: Renew | null, now: Now) =>
  async function readBody(context: BodyContext): Promise<void> {
    const body = await parseBody(read, context.request, context.path);
    if (renew !== null && Math.abs(now() - (context.info?.startedAt ?? 0)) >= LATE_MS) {
      const { role, archived } = await renew(context.request, context.params);
      context.role = role;
      context.archived = archived;
    }
    const ignored = checkUnknownFields(body, schema);
    if (ignored !== null) context.set.headers[IGNORED_FIELDS_HEADER] = ignored;
    context.body = withoutInheritedNames(body);
  };

/** Accepts JSON only (for WHIP and WHEP: SDP as text). */
async function parseBody(read: ReadBody, request: Request, path: string): Promise<unknown> {
  const text = await read(request);
  rawBodies.set(request, text);
  const contentType = request.headers.get("content-type") ?? "";
  const sdpType = SDP_PATH.test(path) ? SDP_TYPES[request.method] : undefined;
  if (sdpType !== undefined) {
    if (contentType.split(";")[0]?.trim().toLowerCase() === sdpType) return text;
    throw new ApiError("SVC_UNSUPPORTED_MEDIA_TYPE", `Send the body as ${sdpType}.`);
  }
  // An empty body is an empty object: every field may be optional, and validation reports the required ones.
  if (text === "") return {};
  if (!/^application\/(?:[\w.+-]+\+)?json\s*(?:;|$)/i.test(contentType)) {
    throw new ApiError("SVC_UNSUPPORTED_MEDIA_TYPE");
  }
  const problem = jsonProblem(text);
  if (problem !== null) throw unreadable(`The body ${problem}.`);
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw unreadable("The body is not valid JSON.");
  }
}

/**
 * `constructor`, `toString` and the like are unknown fields, but every object inherits them: the framework, which drops
 * unknown fields, finds these in its own schema object and rejects the body.
 */
function withoutInheritedNames(body: unknown): unknown {
  // A list has no fields, but one of a mebibyte has 350,000 indexes.
  if (typeof body !== "object" || body === null || Array.isArray(body)) return body;
  for (const name of Object.keys(body)) if (name in Object.prototype) Reflect.deleteProperty(body, name);
  return body;
}

type Hooks = { parse?: { fn: unknown }[]; body?: TSchema; query?: TSchema; transform?: { fn: unknown }[] };
type Route = { method: string; path: string; hooks: Hooks };

const { composeHandler } = BunAdapter;

/**
 * A framework adapter whose JSON parser reads nothing. Without a parser the framework opens the stream of a body, which
 * copies all of it, before any hook; if it is told that there is no body, it does not validate one.
 */
export const UNREAD_BODIES = {
  ...BunAdapter,
  composeHandler: { ...composeHandler, parser: { ...composeHandler.parser, json: () => "" } },
} satisfies typeof BunAdapter;

/**
 * Parses and validates the content of a request after the guard and the rate limiter of its route. The framework would read
 * and parse a body first, so that a client without a credential could make the server parse the largest body.
 */
export function deferBodyParsing(app: AnyElysia, read: ReadBody, now: Now): void {
  for (const { method, path, hooks } of app.router.history as unknown as Route[]) {
    hooks.parse = method === "GET" ? undefined : [{ fn: "json" }];
    const hooksAfterGuard: { fn: unknown }[] = [];
    const parameters: object = hooks.query?.properties ?? {};
    if (Object.keys(parameters).length > 0) {
      // Sign-in providers, players and storage clients add parameters of their own, but have no credential of this API.
      hooksAfterGuard.push({ fn: checkQuery(parameters, credentialsOf(hooks).length > 0) });
    }
    if (readsBody(method, path, hooks)) {
      hooksAfterGuard.push({ fn: readBodies(read, hooks.body, renewalOf(hooks), now) });
    }
    if (hooksAfterGuard.length > 0) hooks.transform = [...(hooks.transform ?? []), ...hooksAfterGuard];
  }
}

/** The body of an open route without a schema is not read: no rate limit applies to it. */
function readsBody(method: string, path: string, hooks: Hooks): boolean {
  if (!["POST", "PUT", "PATCH", "DELETE"].includes(method) || path.startsWith(UPLOAD_PATH)) return false;
  return hooks.body !== undefined || credentialsOf(hooks).length > 0;
}

/** The framework silently uses one of two values for the same query parameter, and drops those that it does not know. */
const checkQuery = (parameters: object, refusesMisspelt: boolean) =>
  function checkQueryOfRoute({ request: { url }, set }: Pick<BodyContext, "request" | "set">): void {
    const start = url.indexOf("?");
    if (start === -1) return;
    const given = new URLSearchParams(url.slice(start));
    const repeated = Object.keys(parameters).find((name) => given.getAll(name).length > 1);
    if (repeated !== undefined) throw invalid(repeated, "must be given once");
    const ignored = refusesMisspelt ? checkUnknownParameters(given, parameters) : null;
    if (ignored !== null) set.headers[IGNORED_FIELDS_HEADER] = ignored;
  };
