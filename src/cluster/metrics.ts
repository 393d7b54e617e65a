import type { Metrics } from "../kernel/metrics.ts";
import type { ClusterState } from "./cluster.ts";

export function measureCluster(metrics: Metrics, state: () => ClusterState): void {
  metrics.gaugeOf("stoa_cluster_leader", "1 on the server that leads, 0 on a standby", () =>
    state().role === "leader" ? 1 : 0,
  );
  metrics.gaugeOf(
    "stoa_cluster_position",
    "The last position of the commit log that this server holds",
    () => state().position,
  );
  metrics.gaugeOf(
    "stoa_cluster_lag_records",
    "Records of the commit log that this server does not hold yet",
    () => state().lag,
  );
}
