import { Elysia } from "elysia";
import type { Http } from "../kernel/http/http.ts";
import { documented } from "../kernel/http/reference/docs.ts";
import type { Runtime } from "../kernel/runtime.ts";
import type { TopicSocket } from "../kernel/socket/sockets.ts";
import { ApiError } from "../protocol/errors.ts";
import type { Services } from "../services.ts";
import { ABSTAIN_PATH, type AbstainResponse } from "./abstention.ts";
import { ClusterOverview } from "./cluster.schema.ts";
import type { Cluster } from "./cluster.ts";
import { CHALLENGE_PATH } from "./member-authentication.ts";
import { singleServerOverview } from "./overview.ts";
import { ForwardedSockets } from "./proxy/forwarded-sockets.ts";
import { BATCHES_QUERY, PROXY_PATH } from "./proxy/frames.ts";
import { SNAPSHOT_PATH } from "./snapshot.ts";

export const OPERATIONS_PATH = "/v1/cluster/operations";

/** The leader's routes for other members. Any other client, and every client without a commit log, gets 404. */
export function clusterRoutes(
  cluster: Cluster | null,
  runtime: Runtime,
  services: Services,
  handle: (request: Request) => Promise<Response>,
) {
  const routes = new Elysia({ name: "cluster", detail: { hide: true } });
  if (cluster === null) return routes;
  const { fence, authentication } = cluster;
  const standby = () => new ApiError("SVC_STANDBY", undefined, { retryAfterSeconds: 1 });
  const requireMember = (request: Request) => {
    const linkToken = authentication.verify(request);
    if (linkToken === null) throw new ApiError("SVC_ROUTE_NOT_FOUND");
    return linkToken;
  };
  return (
    routes
      .onRequest(async () => {
        if (fence.isStale() && !(await fence.fresh())) throw standby();
      })
      // The thread may have been suspended after the request was admitted.
      .onAfterHandle({ as: "global" }, ({ request: { method } }) => {
        if (method === "GET" && fence.isStale()) throw standby();
      })
      .get(PROXY_PATH, ({ request, server }) => {
        const linkToken = requireMember(request);
        const { accept, carry } = runtime.sockets;
        const takesBatches = new URL(request.url).searchParams.has(BATCHES_QUERY);
        const onClosed = () => authentication.closeLink(linkToken);
        const forwarded = (socket: TopicSocket) => {
          authentication.openLink(linkToken);
          return new ForwardedSockets(socket, { handle, carry, takesBatches, onClosed });
        };
        const accepted = accept(server, request, {}, forwarded, { unlimited: true });
        if (!accepted) throw new ApiError("SVC_VALIDATION_FAILED", "Connect to this address with a WebSocket.");
      })
      .get(CHALLENGE_PATH, ({ request }) => {
        const response = authentication.respond(request);
        if (response === null) throw new ApiError("SVC_ROUTE_NOT_FOUND");
        return response;
      })
      .post(ABSTAIN_PATH, ({ request }) => {
        requireMember(request);
        return Response.json({ role: "leader", abstains: false } satisfies AbstainResponse);
      })
      .get(SNAPSHOT_PATH, ({ request }) => {
        requireMember(request);
        return cluster.snapshot();
      })
      .post(OPERATIONS_PATH, async ({ request }) => {
        requireMember(request);
        return Response.json(await cluster.operate(services, runtime, await request.json()));
      })
  );
}

export const clusterOperatorRoutes = ({ guards }: Http, { config }: Runtime, cluster: Cluster | null) =>
  new Elysia({ prefix: "/v1/cluster", tags: ["fleet"] })
    .use(guards.operator)
    .get("", () => cluster?.overview() ?? singleServerOverview(config.STORAGE_S3_BUCKET !== undefined), {
      ...documented("The servers that share a commit log, and how far each is", ["SVC_PERMISSION_DENIED"]),
      response: { 200: ClusterOverview },
    });
