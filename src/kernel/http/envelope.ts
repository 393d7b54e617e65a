import { Elysia } from "elysia";
import { ApiError, type ErrorCode } from "../../protocol/errors.ts";
import type { Ids } from "../crypto/ids.ts";
import { type Log, loggedPath } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Now } from "../time/clock.ts";
import type { SpanContext } from "../tracing/span.ts";
import type { Tracing } from "../tracing/tracing.ts";
import { toApiError } from "./errors.ts";
import {
  adoptRequestId,
  createHostCheck,
  type InfoSources,
  LazyRequestInfo,
  type RequestInfo,
} from "./request-info.ts";
import { createRequestMetrics } from "./request-metrics.ts";
import { overloadError } from "./serving/request-admission.ts";
import { IGNORED_FIELDS_HEADER } from "./unknown-fields.ts";

type EnvelopeDeps = InfoSources & {
  now: Now;
  log: Log;
  metrics: Metrics;
  tracing: Tracing | null;
  ids: Ids;
  methodsOf: (path: string) => string[];
};

type Envelope = { plugin: ReturnType<typeof createPlugin>; infoOf: (request: Request) => RequestInfo };

/** The route of scrapers; it gets no CORS headers. */
export const METRICS_PATH = "/metrics";

/** These are properties of the request itself: a weak map would take a twentieth of the time of a small request. */
const INFO = Symbol("info");
const SPAN = Symbol("span");
type MarkedRequest = Request & { [INFO]?: RequestInfo; [SPAN]?: SpanContext };

const SAME_FAILURE_MS = 10_000;

/** On a full disk or under load every request fails in the same way, and the log would fill the disk as well. */
function createFailureFilter(now: Now): (failure: ApiError) => boolean {
  const loggedAt = new Map<ErrorCode, number>();
  return ({ code, status }) => {
    if (status <= 500) return status === 500;
    const at = now();
    if (Math.abs(at - (loggedAt.get(code) ?? Number.NEGATIVE_INFINITY)) < SAME_FAILURE_MS) return false;
    loggedAt.set(code, at);
    return true;
  };
}

/** The common handling of every response: request id, CORS, error envelope, log line, metrics. */
export function createEnvelope(deps: EnvelopeDeps): Envelope {
  const hostError = createHostCheck();
  const newRequestId = () => deps.ids.publicId("request");
  const infoOfAny = (request: Request): RequestInfo => {
    const found = (request as MarkedRequest)[INFO];
    if (found) return found;
    const id = adoptRequestId(request.headers.get("x-request-id"), newRequestId);
    const info = new LazyRequestInfo(id, deps.now(), request, deps);
    (request as MarkedRequest)[INFO] = info;
    if (deps.tracing) (request as MarkedRequest)[SPAN] = deps.tracing.enter(request);
    return info;
  };
  // The info is created by the first caller, a guard or a parser. A hook before every route would take a tenth of the
  // time of a small request: the framework then parses each URL and looks for an early response.
  const infoOf = (request: Request): RequestInfo => {
    const found = (request as MarkedRequest)[INFO];
    if (found) return found;
    const info = infoOfAny(request);
    const problem = hostError(request) ?? overloadError(request);
    if (problem) throw problem;
    return info;
  };
  return { plugin: createPlugin({ ...deps, infoOf, infoOfAny, hostError }), infoOf };
}

type PluginDeps = EnvelopeDeps & {
  infoOf: (request: Request) => RequestInfo;
  /** Returns the info of a request even if it is rejected, for example because of its Host header. */
  infoOfAny: (request: Request) => RequestInfo;
  hostError: (request: Request) => ApiError | null;
};
type ResponseState = { headers: Record<string, string | number | string[] | undefined>; status?: number | string };

function createPlugin(deps: PluginDeps) {
  const { now, log, metrics, tracing, methodsOf, infoOf, infoOfAny, hostError } = deps;
  const count = createRequestMetrics(metrics);
  const logsRequests = log.isLevelEnabled("debug");
  const isLogged = createFailureFilter(now);

  const finish = (info: RequestInfo, request: Request, set: ResponseState, route = "unmatched") => {
    // Bun reads the framework's headers object, which has no prototype, half as fast as a plain object.
    set.headers = { ...set.headers, "x-request-id": info.id };
    if (info.origin !== null && route !== METRICS_PATH) {
      corsHeaders(set.headers, info.origin);
      if (isPreflight(request)) Object.assign(set.headers, preflightHeaders(request));
    }
    const status = typeof set.status === "number" ? set.status : 200;
    const ms = now() - info.startedAt;
    count(request.method, route, status, ms);
    const span = tracing && (request as MarkedRequest)[SPAN];
    if (span) {
      const attributes = {
        "http.request.method": request.method,
        "http.route": route,
        "http.response.status_code": status,
      };
      const error = status >= 500 ? { error: String(status) } : {};
      tracing.end(span, {
        name: `${request.method} ${route}`,
        kind: "server",
        startMs: info.startedAt,
        attributes,
        ...error,
      });
    }
    if (!logsRequests) return;
    const { id: requestId, ip } = info;
    log.debug({ requestId, method: request.method, path: loggedPath(request.url), status, ms, ip }, "http: request");
  };

  // The framework analyses the source of its hooks: a hook that mentions `headers`, `server` or the whole context makes
  // it copy all headers, or redefine a property, for every request; a hook that returns a call makes it await the
  // result.
  return new Elysia({ name: "envelope" })
    .onAfterHandle({ as: "global" }, ({ request, set, route }) => {
      finish(infoOf(request), request, set, route);
    })
    .onError({ as: "global" }, ({ error, code, path, request, set, route }) => {
      const info = infoOfAny(request);
      // Few routes accept OPTIONS, so the preflight requests of all others are handled here.
      if (info.origin !== null && path !== METRICS_PATH && isPreflight(request)) {
        set.status = 204;
        return preflight(request, info.id, info.origin);
      }
      let failure = toApiError(code, hostError(request) ?? error);
      if (failure.code === "SVC_ROUTE_NOT_FOUND") {
        const allow = methodsOf(path);
        if (allow.length > 0 && !allow.includes(request.method)) {
          failure = new ApiError("SVC_METHOD_NOT_ALLOWED");
          set.headers.allow = allow.join(", ");
        }
      }
      const requestId = info.id;
      if (isLogged(failure))
        log.error({ err: error, requestId, path: loggedPath(request.url) }, "http: request failed");
      if (failure.status === 401) set.headers["www-authenticate"] = "Bearer";
      if (failure.extra.retryAfterSeconds !== undefined) {
        set.headers["retry-after"] = String(failure.extra.retryAfterSeconds);
      }
      set.headers["content-type"] = "application/json";
      set.status = failure.status;
      finish(info, request, set, path === METRICS_PATH ? path : route);
      const { legacyCode, message, extra } = failure;
      return { ...extra, code: failure.code, legacyCode, message, requestId, path };
    });
}

const EXPOSED_HEADERS =
  "x-request-id, link, location, retry-after, ratelimit-limit, ratelimit-remaining, ratelimit-reset, idempotent-replayed, " +
  `content-disposition, content-range, accept-ranges, etag, accept-patch, accept-post, ${IGNORED_FIELDS_HEADER}`;

/**
 * Any origin may read a response: cookies are only used in /v1/auth, and the origins of a project are checked together
 * with the credential. A rejected page can thus read the reason.
 */
function corsHeaders(headers: Record<string, string | number | string[] | undefined>, origin: string): void {
  headers["access-control-allow-origin"] = origin;
  headers["access-control-expose-headers"] = EXPOSED_HEADERS;
  headers.vary = "origin";
}

function isPreflight(request: Request): boolean {
  return request.method === "OPTIONS" && request.headers.has("access-control-request-method");
}

function preflight(request: Request, requestId: string, origin: string): Response {
  return new Response(null, {
    status: 204,
    headers: {
      "x-request-id": requestId,
      "access-control-allow-origin": origin,
      vary: "origin",
      ...preflightHeaders(request),
    },
  });
}

function preflightHeaders({ headers }: Request) {
  return {
    "access-control-allow-methods": "GET, POST, PUT, PATCH, DELETE",
    "access-control-allow-headers":
      headers.get("access-control-request-headers") ?? "authorization, content-type, idempotency-key",
    "access-control-max-age": "7200",
  };
}

type RoutePath = { method: string; path: string };

/** The allowed methods of a path, for requests that match no route. */
export function createMethodsOf(routes: () => readonly RoutePath[]): (path: string) => string[] {
  let table: { pattern: RegExp; method: string }[] | null = null;
  return (path) => {
    table ??= routes()
      .filter(({ method, path: template }) => method !== "WS" && !template.endsWith("*"))
      .map(({ method, path: template }) => ({ method, pattern: patternOf(template) }));
    return [...new Set(table.filter(({ pattern }) => pattern.test(path)).map(({ method }) => method))];
  };
}

function patternOf(template: string): RegExp {
  const source = template
    .replace(/\/$/, "")
    .replace(/[.+?^${}()|[\]\\]/g, "\\$&")
    .replace(/:[^/]+/g, "[^/]+");
  return new RegExp(`^${source}/?$`);
}
