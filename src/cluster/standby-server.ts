import type { Server } from "bun";
import { type MetricsAccess, mayReadMetrics } from "../kernel/http/metrics-access.ts";
import { UNKNOWN_ADDRESS } from "../kernel/net/addresses.ts";
import { VERSION } from "../kernel/version.ts";
import { ApiError } from "../protocol/errors.ts";
import { ABSTAIN_PATH, type AbstainResponse } from "./abstention.ts";
import type { ClusterState } from "./cluster.ts";
import { CHALLENGE_PATH, type MemberAuthentication } from "./member-authentication.ts";
import { SNAPSHOT_PATH } from "./snapshot.ts";

type StandbyDeps = {
  hostname: string;
  port: number;
  state: () => ClusterState;
  /** The reasons why this member is not ready, by state. */
  reasons: () => Record<string, string>;
  authentication: MemberAuthentication;
  abstain: () => boolean;
  snapshot: () => Promise<Response>;
  metrics: () => Promise<string>;
  metricsAccess: MetricsAccess;
};

const RETRY_AFTER_SECONDS = 1;

/** Serves health, metrics and the members' requests; every other request is answered with SVC_STANDBY. */
export function serveStandby(deps: StandbyDeps): Server<undefined> {
  const { state, reasons, authentication } = deps;
  return Bun.serve({
    hostname: deps.hostname,
    port: deps.port,
    reusePort: false,
    development: false,
    idleTimeout: 120,
    async fetch(request, server) {
      const { pathname } = new URL(request.url);
      if (pathname === "/healthz") return Response.json({ status: "ok", version: VERSION });
      if (pathname === "/readyz") return readiness(state(), reasons());
      if (pathname === "/metrics") {
        const ip = server.requestIP(request)?.address ?? UNKNOWN_ADDRESS;
        return mayReadMetrics(request, ip, deps.metricsAccess)
          ? new Response(await deps.metrics())
          : standbyResponse(pathname);
      }
      if (pathname === CHALLENGE_PATH) return authentication.respond(request) ?? standbyResponse(pathname);
      if (pathname === ABSTAIN_PATH && authentication.verify(request) !== null) {
        return Response.json({ role: "standby", abstains: deps.abstain() } satisfies AbstainResponse);
      }
      if (pathname === SNAPSHOT_PATH && authentication.verify(request) !== null) return deps.snapshot();
      return standbyResponse(pathname);
    },
  });
}

function readiness(state: ClusterState, reasons: Record<string, string>): Response {
  const status = "standby" in reasons ? "standby" : "unavailable";
  return Response.json({ status, reasons, ...state }, { status: 503 });
}

export function standbyResponse(path: string, error: "SVC_STANDBY" | "SVC_LEADER_LOST" = "SVC_STANDBY"): Response {
  const { code, legacyCode, message, status } = new ApiError(error);
  const requestId = `req_${crypto.randomUUID().replaceAll("-", "")}`;
  return Response.json(
    { retryAfterSeconds: RETRY_AFTER_SECONDS, code, legacyCode, message, requestId, path },
    {
      status,
      headers: {
        "retry-after": String(RETRY_AFTER_SECONDS),
        "x-request-id": requestId,
        // The header lets a page of another origin read that it may retry.
        "access-control-allow-origin": "*",
        "access-control-expose-headers": "retry-after, x-request-id",
        connection: "close",
      },
    },
  );
}
