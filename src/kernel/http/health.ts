import { Elysia, type Static, t } from "elysia";
import { ApiError } from "../../protocol/errors.ts";
import { sameSecret } from "../crypto/secrets.ts";
import type { Metrics } from "../metrics.ts";
import { VERSION } from "../version.ts";
import { METRICS_PATH } from "./envelope.ts";
import { ServerReadiness } from "./health.schema.ts";
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

const LOOPBACK = new Set(["127.0.0.1", "::1"]);

/**
 * A reverse proxy on this machine forwards requests of others, so every IP address in its header must be local as well.
 */
function isLocal(ip: string, request: Request): boolean {
  const forwarded = request.headers.get("x-forwarded-for")?.split(",") ?? [];
  return [ip, ...forwarded.map((hop) => hop.trim())].every((address) => LOOPBACK.has(address));
}

export function healthRoutes(deps: {
  readiness: Readiness;
  metrics: Metrics;
  metricsToken: string | undefined;
  infoOf: (request: Request) => RequestInfo;
  /** Null for a server without a cluster. */
  cluster: (() => Pick<Static<typeof ServerReadiness>, "role" | "leader" | "position" | "lag">) | null;
}) {
  const { readiness, metrics, metricsToken, infoOf, cluster } = deps;
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
      async ({ request, headers, set }) => {
        const given = /^Bearer (.+)$/i.exec(headers.authorization ?? "")?.[1] ?? "";
        const info = infoOf(request);
        const isHere = info.ownHost && isLocal(info.ip, request);
        const may = metricsToken === undefined ? isHere : sameSecret(given, metricsToken);
        if (!may) throw new ApiError(metricsToken === undefined ? "SVC_PERMISSION_DENIED" : "SVC_AUTH_ERROR");
        set.headers["content-type"] = metrics.registry.contentType;
        return metrics.registry.metrics();
      },
      {
        ...documented("Prometheus metrics; loopback only unless METRICS_TOKEN is set", ["SVC_PERMISSION_DENIED"]),
        response: { 200: t.String() },
      },
    );
}
