import { Elysia } from "elysia";
import { ApiError } from "../protocol/errors.ts";
import type { Cluster } from "./cluster.ts";
import { isMember, SNAPSHOT_PATH } from "./snapshot.ts";

/** What other members ask of the one that leads; for everybody else, and without a commit log, there is nothing here. */
export function clusterRoutes(cluster: Cluster | null) {
  const routes = new Elysia({ name: "cluster", detail: { hide: true } });
  if (cluster === null) return routes;
  return routes
    .onRequest(() => {
      if (cluster.isStale()) throw new ApiError("SVC_STANDBY", undefined, { retryAfterSeconds: 1 });
    })
    .get(SNAPSHOT_PATH, ({ request }) => {
      if (!isMember(request, cluster.credential)) throw new ApiError("SVC_ROUTE_NOT_FOUND");
      return cluster.snapshot();
    });
}
