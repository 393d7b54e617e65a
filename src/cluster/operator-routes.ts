import { Elysia } from "elysia";
import type { Http } from "../kernel/http/http.ts";
import { documented } from "../kernel/http/reference/docs.ts";
import type { Runtime } from "../kernel/runtime.ts";
import { ClusterOverview } from "./cluster.schema.ts";
import type { Cluster } from "./cluster.ts";
import { aloneOverview } from "./show.ts";

/** The servers that stand by for each other, as an operator sees them. */
export const clusterOperatorRoutes = ({ guards }: Http, { config }: Runtime, cluster: Cluster | null) =>
  new Elysia({ prefix: "/v1/cluster", tags: ["fleet"] })
    .use(guards.operator)
    .get("", () => cluster?.overview() ?? aloneOverview(config.STORAGE_S3_BUCKET !== undefined), {
      ...documented("The servers that share a commit log, and how far each is", ["SVC_PERMISSION_DENIED"]),
      response: { 200: ClusterOverview },
    });
