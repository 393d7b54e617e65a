import { Elysia } from "elysia";
import { ApiError } from "../../protocol/errors.ts";
import type { Ids } from "../crypto/ids.ts";
import { type Log, loggedPath } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Now } from "../time/clock.ts";
import type { SpanContext } from "../tracing/span.ts";
import type { Tracing } from "../tracing/tracing.ts";
import { corsHeaders, isPreflight, preflight } from "./cors.ts";
import { toApiError } from "./failure.ts";
import { adoptRequestId, createHostCheck, type InfoLookUp, LazyRequestInfo, type RequestInfo } from "./request-info.ts";
import { createRequestMetrics } from "./request-metrics.ts";
import { overloadError } from "./serving/request-admission.ts";

export type EnvelopeDeps = InfoLookUp & {
  now: Now;
  log: Log;
  metrics: Metrics;
  tracing: Tracing | null;
  ids: Ids;
  /** Methods that the path of an unmatched request does exist with. */
  methodsOf: (path: string) => string[];
};

export type Envelope = { plugin: ReturnType<typeof createPlugin>; infoOf: (request: Request) => RequestInfo };

/** For scrapers; no page of anybody has a use for it. */
export const METRICS_PATH = "/metrics";

/** On the request itself: a weak map of requests in flight cost a twentieth of a small one. */
const INFO = Symbol("info");
const SPAN = Symbol("span");
type Noted = Request & { [INFO]?: RequestInfo; [SPAN]?: SpanContext };

/** What every answer has in common: request id, CORS, error envelope, a log line, a figure. */
export function createEnvelope(deps: EnvelopeDeps): Envelope {
  const problemOfHost = createHostCheck();
  const newRequestId = () => deps.ids.publicId("request");
  const noted = (request: Request): RequestInfo => {
    const found = (request as Noted)[INFO];
    if (found) return found;
    const id = adoptRequestId(request.headers.get("x-request-id"), newRequestId);
    const info = new LazyRequestInfo(id, deps.now(), request, deps);
    (request as Noted)[INFO] = info;
    if (deps.tracing) (request as Noted)[SPAN] = deps.tracing.enter(request);
    return info;
  };
  // Made for whoever asks first, guard or parser. A hook before every route would cost a tenth of a small request: the
  // framework then takes the address of each apart and looks for an early answer.
  const infoOf = (request: Request): RequestInfo => {
    const found = (request as Noted)[INFO];
    if (found) return found;
    const info = noted(request);
    const problem = problemOfHost(request) ?? overloadError(request);
    if (problem) throw problem;
    return info;
  };
  return { plugin: createPlugin({ ...deps, infoOf, noted, problemOfHost }), infoOf };
}

type PluginDeps = EnvelopeDeps & {
  infoOf: (request: Request) => RequestInfo;
  /** The same for one that is refused already, whatever host it named. */
  noted: (request: Request) => RequestInfo;
  problemOfHost: (request: Request) => ApiError | null;
};
type Answer = { headers: Record<string, string | number | string[] | undefined>; status?: number | string };

function createPlugin(deps: PluginDeps) {
  const { now, log, metrics, tracing, methodsOf, infoOf, noted, problemOfHost } = deps;
  const count = createRequestMetrics(metrics);
  const talkative = log.isLevelEnabled("debug");

  const finish = (info: RequestInfo, request: Request, set: Answer, route = "unmatched") => {
    // The framework's object has no prototype, and those take Bun twice as long to read.
    set.headers = { ...set.headers, "x-request-id": info.id };
    if (info.origin !== null && route !== METRICS_PATH) corsHeaders(set.headers, info.origin);
    const status = typeof set.status === "number" ? set.status : 200;
    const ms = now() - info.startedAt;
    count(request.method, route, status, ms);
    const span = tracing && (request as Noted)[SPAN];
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
    if (!talkative) return;
    const { id: requestId, ip } = info;
    log.debug({ requestId, method: request.method, path: loggedPath(request.url), status, ms, ip }, "request");
  };

  // The framework reads the source of its hooks: one that names `headers`, `server` or the whole context makes it copy
  // all headers, or redefine a property, on every request; one that returns a call makes it wait.
  return new Elysia({ name: "envelope" })
    .onAfterHandle({ as: "global" }, ({ request, set, route }) => {
      finish(infoOf(request), request, set, route);
    })
    .onError({ as: "global" }, ({ error, code, path, request, set, route }) => {
      const info = noted(request);
      // No route takes OPTIONS, so the question of a browser ends up here.
      if (info.origin !== null && path !== METRICS_PATH && isPreflight(request)) {
        set.status = 204;
        return preflight(request, info.id, info.origin);
      }
      let failure = toApiError(code, problemOfHost(request) ?? error);
      if (failure.code === "SVC_ROUTE_NOT_FOUND") {
        const allow = methodsOf(path);
        if (allow.length > 0 && !allow.includes(request.method)) {
          failure = new ApiError("SVC_METHOD_NOT_ALLOWED");
          set.headers.allow = allow.join(", ");
        }
      }
      const requestId = info.id;
      if (failure.status >= 500) log.error({ err: error, requestId, path: loggedPath(request.url) }, "request failed");
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
