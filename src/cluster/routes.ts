import { Elysia } from "elysia";
import type { Runtime } from "../kernel/runtime.ts";
import type { TopicSocket } from "../kernel/socket/sockets.ts";
import { ApiError } from "../protocol/errors.ts";
import type { Services } from "../services.ts";
import type { Cluster } from "./cluster.ts";
import { BUNDLES_QUERY } from "./edge/bundles.ts";
import { EDGE_PATH } from "./edge/carried-client.ts";
import { CarriedSockets } from "./edge/carried-sockets.ts";
import { ABSTAIN_PATH, type AbstainAnswer } from "./peers.ts";
import { isMember, SNAPSHOT_PATH } from "./snapshot.ts";

export const OPERATIONS_PATH = "/v1/cluster/operations";

/** What other members ask of the one that leads; for everybody else, and without a commit log, there is nothing here. */
export function clusterRoutes(
  cluster: Cluster | null,
  runtime: Runtime,
  services: Services,
  handle: (request: Request) => Promise<Response>,
) {
  const routes = new Elysia({ name: "cluster", detail: { hide: true } });
  if (cluster === null) return routes;
  const { fence } = cluster;
  const standby = () => new ApiError("SVC_STANDBY", undefined, { retryAfterSeconds: 1 });
  const requireMember = (request: Request) => {
    if (!isMember(request, cluster.credential)) throw new ApiError("SVC_ROUTE_NOT_FOUND");
  };
  return (
    routes
      .onRequest(async () => {
        if (fence.isStale() && !(await fence.fresh())) throw standby();
      })
      // The thread may have stood still after the question was let in.
      .onAfterHandle({ as: "global" }, ({ request: { method } }) => {
        if (method === "GET" && fence.isStale()) throw standby();
      })
      .get(EDGE_PATH, ({ request, server }) => {
        requireMember(request);
        const { accept, carry } = runtime.sockets;
        const takesBundles = new URL(request.url).searchParams.has(BUNDLES_QUERY);
        const carried = (socket: TopicSocket) => new CarriedSockets(socket, { handle, carry, takesBundles });
        const accepted = accept(server, request, {}, carried, { neverTooMuch: true });
        if (!accepted) throw new ApiError("SVC_VALIDATION_FAILED", "Connect to this address with a WebSocket.");
      })
      .post(ABSTAIN_PATH, ({ request }) => {
        requireMember(request);
        return Response.json({ role: "leader", abstains: false } satisfies AbstainAnswer);
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
