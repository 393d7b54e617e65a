import type { ObservabilityService } from "../observability/observability.service.ts";
import type { Job } from "./scheduler.ts";

/** Connections and errors are kept for CONNECTION_RETENTION_DAYS. */
export const pruneConnections = (observability: Pick<ObservabilityService, "prune">): Job => ({
  name: "prune-connections",
  everyMs: 3_600_000,
  runDue: () => observability.prune(),
});
