import { Elysia } from "elysia";
import { ApiError } from "../../protocol/errors.ts";
import type { Now } from "../clock.ts";
import { type Log, loggedPath } from "../log.ts";
import type { Metrics } from "../metrics.ts";
import type { Timers } from "../timers.ts";
import { parseBody } from "./body.ts";
import { createBodyReader } from "./body-reader.ts";
import { corsHeaders, preflight } from "./cors.ts";
import { toApiError } from "./failure.ts";
import { adoptRequestId, type InfoLookUp, LazyRequestInfo, type RequestInfo, requireHost } from "./request-info.ts";
import { createRequestMetrics } from "./request-metrics.ts";

export type EnvelopeDeps = InfoLookUp & {
  now: Now;
  timers: Timers;
  log: Log;
  metrics: Metrics;
  newRequestId: () => string;
  /** Methods that the path of an unmatched request does exist with. */
  methodsOf: (path: string) => string[];
};

export type Envelope = { plugin: ReturnType<typeof createPlugin>; infoOf: (request: Request) => RequestInfo };

/** What every answer has in common: request id, CORS, error envelope, a log line, a figure. */
export function createEnvelope(deps: EnvelopeDeps): Envelope {
  const infos = new WeakMap<Request, RequestInfo>();
  const infoOf = (request: Request) => {
    const info = infos.get(request);
    if (!info) throw new Error("the request did not pass the envelope");
    return info;
  };
  return { plugin: createPlugin(deps, infos, infoOf), infoOf };
}

function createPlugin(deps: EnvelopeDeps, infos: WeakMap<Request, RequestInfo>, infoOf: Envelope["infoOf"]) {
  const { now, timers, log, metrics, newRequestId, methodsOf } = deps;
  const count = createRequestMetrics(metrics);
  const readBody = createBodyReader(timers);

  return (
    new Elysia({ name: "envelope" })
      // `onRequest`, not `derive`: it also runs for unknown routes and unreadable bodies.
      // The framework reads the source of its hooks: one that names `headers` or `server` makes it copy all headers, or
      // redefine a property, on every request; one that returns a call makes it wait.
      .onRequest(({ request, set }) => {
        let early: Response | undefined;
        const id = adoptRequestId(request.headers.get("x-request-id"), newRequestId);
        const info = new LazyRequestInfo(id, now(), request, deps);
        infos.set(request, info);
        // The line is written after the answer, when the socket may be gone.
        if (log.isLevelEnabled("debug")) info.ip;
        set.headers["x-request-id"] = info.id;
        requireHost(request);
        if (info.origin !== null) {
          corsHeaders(set.headers, info.origin);
          if (request.method === "OPTIONS" && request.headers.has("access-control-request-method")) {
            early = preflight(request, info.id, info.origin);
          }
        }
        return early;
      })
      .onParse({ as: "global" }, ({ request, path, contentType }) => parseBody(readBody, request, path, contentType))
      .onError({ as: "global" }, ({ error, code, path, request, set }) => {
        let failure = toApiError(code, error);
        if (failure.code === "SVC_ROUTE_NOT_FOUND") {
          const allow = methodsOf(path);
          if (allow.length > 0 && !allow.includes(request.method)) {
            failure = new ApiError("SVC_METHOD_NOT_ALLOWED");
            set.headers.allow = allow.join(", ");
          }
        }
        const requestId = infos.get(request)?.id ?? newRequestId();
        if (failure.status >= 500)
          log.error({ err: error, requestId, path: loggedPath(request.url) }, "request failed");
        if (failure.status === 401) set.headers["www-authenticate"] = "Bearer";
        if (failure.extra.retryAfterSeconds !== undefined) {
          set.headers["retry-after"] = String(failure.extra.retryAfterSeconds);
        }
        set.headers["x-request-id"] = requestId;
        set.headers["content-type"] = "application/json";
        set.status = failure.status;
        const { legacyCode, message, extra } = failure;
        return { ...extra, code: failure.code, legacyCode, message, requestId, path };
      })
      .onAfterResponse({ as: "global" }, ({ request, set, route }) => {
        const info = infoOf(request);
        const status = typeof set.status === "number" ? set.status : 200;
        const ms = now() - info.startedAt;
        count(request.method, route ?? "unmatched", status, ms);
        if (log.isLevelEnabled("debug")) {
          log.debug(
            { requestId: info.id, method: request.method, path: loggedPath(request.url), status, ms, ip: info.ip },
            "request",
          );
        }
      })
  );
}
