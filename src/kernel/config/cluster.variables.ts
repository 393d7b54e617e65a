import { origin, postgresUrl } from "./checks.ts";
import { choice, optional, secret } from "./variable.ts";

export const clusterVariables = {
  COMMIT_LOG_URL: secret(
    postgresUrl,
    "Postgres that holds the commit log of several servers, of which one leads and the others stand by. Needs STOA_SECRET.",
  ),
  ROLE: choice(
    "server",
    ["server", "edge"],
    "edge: holds no data, and forwards requests and sockets to the server of the commit log that leads.",
  ),
  CLUSTER_URL: optional(
    origin,
    "Address under which the other servers of the commit log reach this one. Unset: http, HOST and PORT.",
  ),
};
