import { Elysia } from "elysia";
import { ApiError } from "../protocol/errors.ts";
import type { Runtime } from "../runtime.ts";
import type { Services } from "../services.ts";
import type { Cluster } from "./cluster.ts";
import { isMember, SNAPSHOT_PATH } from "./snapshot.ts";

export const OPERATIONS_PATH = "/v1/cluster/operations";

/** What other members ask of the one that leads; for everybody else, and without a commit log, there is nothing here. */
export function clusterRoutes(cluster: Cluster | null, runtime: Runtime, services: Services) {
  const routes = new Elysia({ name: "cluster", detail: { hide: true } });
  if (cluster === null) return routes;
  const requireMember = (request: Request) => {
    if (!isMember(request, cluster.credential)) throw new ApiError("SVC_ROUTE_NOT_FOUND");
  };
  return routes
    .onRequest(() => {
      if (cluster.isStale()) throw new ApiError("SVC_STANDBY", undefined, { retryAfterSeconds: 1 });
    })
    .get(SNAPSHOT_PATH, ({ request }) => {
      requireMember(request);
      return cluster.snapshot();
    })
    .post(OPERATIONS_PATH, async ({ request }) => {
      requireMember(request);
      return Response.json(await cluster.operate(services, runtime, await request.json()));
    });
}
