import { Elysia, type Static, t } from "elysia";
import { ApiError } from "../../protocol/errors.ts";
import type { Metrics } from "../metrics.ts";
import { VERSION } from "../version.ts";
import { METRICS_PATH } from "./envelope.ts";
import { ServerReadiness } from "./health.schema.ts";
import { type MetricsAccess, mayReadMetrics } from "./metrics-access.ts";
import { documented } from "./reference/docs.ts";
import type { RequestInfo } from "./request-info.ts";

type ReadinessCheck = () => string | null;

export type Readiness = {
  add(name: string, check: ReadinessCheck): void;
  /** Reasons by component; empty when everything is ready. */
  reasons(): Record<string, string>;
};

export function createReadiness(): Readiness {
  const checks = new Map<string, ReadinessCheck>();
  return {
    add: (name, check) => void checks.set(name, check),
    reasons() {
      const reasons: Record<string, string> = {};
      for (const [name, check] of checks) {
        const reason = check();
        if (reason !== null) reasons[name] = reason;
      }
      return reasons;
    },
  };
}

export function healthRoutes(deps: {
  readiness: Readiness;
  metrics: Metrics;
  metricsAccess: MetricsAccess;
  infoOf: (request: Request) => RequestInfo;
  /** Null for a server without a cluster. */
  cluster: (() => Pick<Static<typeof ServerReadiness>, "role" | "leader" | "position" | "lag">) | null;
}) {
  const { readiness, metrics, metricsAccess, infoOf, cluster } = deps;
  return new Elysia({ tags: ["health"] })
    .get("/healthz", () => ({ status: "ok", version: VERSION }), {
      ...documented("The process responds"),
      response: { 200: t.Object({ status: t.String(), version: t.String() }) },
    })
    .get(
      "/readyz",
      ({ set }) => {
        const reasons = readiness.reasons();
        const ready = Object.keys(reasons).length === 0;
        if (!ready) set.status = 503;
        return { status: ready ? "ready" : "unavailable", reasons, ...cluster?.() };
      },
      {
        ...documented("Database and media are ready, and the server is not draining"),
        response: { 200: ServerReadiness, 503: ServerReadiness },
      },
    )
    .get(
      METRICS_PATH,
      async ({ request, set }) => {
        if (!mayReadMetrics(request, infoOf(request).ip, metricsAccess)) {
          throw new ApiError(metricsAccess.token === undefined ? "SVC_PERMISSION_DENIED" : "SVC_AUTH_ERROR");
        }
        set.headers["content-type"] = metrics.registry.contentType;
        return metrics.registry.metrics();
      },
      {
        ...documented("Prometheus metrics; loopback only unless METRICS_TOKEN is set", ["SVC_PERMISSION_DENIED"]),
        response: { 200: t.String() },
      },
    );
}
