import { origin, postgresUrl } from "./checks.ts";
import { optional, secret } from "./variable.ts";

export const clusterVariables = {
  COMMIT_LOG_URL: secret(
    postgresUrl,
    "Postgres that holds the commit log of several servers, of which one leads and the others stand by. Needs STOA_SECRET.",
  ),
  CLUSTER_URL: optional(
    origin,
    "Address under which the other servers of the commit log reach this one. Unset: http, HOST and PORT.",
  ),
};
