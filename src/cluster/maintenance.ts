import type { CommitLog } from "../kernel/db/commit-log.ts";
import type { Log } from "../kernel/log.ts";
import type { Metrics } from "../kernel/metrics.ts";
import { every, type Timers } from "../kernel/time/timers.ts";
import { VERSION } from "../kernel/version.ts";
import type { Cluster, ClusterState } from "./cluster.ts";
import { measureRefusals } from "./refusals.ts";

const REPORT_EVERY_MS = 1_000;
const TRIM_EVERY_MS = 60_000;
/** A member that does not report for longer needs a snapshot when it reconnects. */
const WAIT_FOR_MEMBER_MS = 600_000;
/** This many records are kept for members that reconnect shortly afterwards. */
const KEEP_RECORDS = 10_000;
/** A slow member does not keep more records than this in the log. */
const MAX_RECORDS = 1_000_000;

type MaintenanceDeps = { commitLog: CommitLog; url: string; state: () => ClusterState; log: Log; timers: Timers };

export function startReporting({ commitLog, url, state, log, timers }: MaintenanceDeps): () => void {
  return every({ timers, log }, REPORT_EVERY_MS, async () => {
    const { role, position } = state();
    // An unreachable log is reported where records are read and written.
    await commitLog.report({ url, role, position, version: VERSION }).catch(() => {});
  });
}

/** Removes the records that every member has applied. */
export function startTrimming(deps: Pick<MaintenanceDeps, "commitLog" | "state" | "log" | "timers">): () => void {
  return every(deps, TRIM_EVERY_MS, async () => {
    try {
      await deps.commitLog.truncate(await removablePosition(deps.commitLog, deps.state().position));
    } catch (error) {
      deps.log.debug({ err: error }, "cluster: commit log not trimmed");
    }
  });
}

export async function removablePosition(commitLog: Pick<CommitLog, "members">, head: number): Promise<number> {
  const present = (await commitLog.members()).filter(
    ({ role, silentMs }) => role !== "edge" && silentMs < WAIT_FOR_MEMBER_MS,
  );
  const slowest = Math.min(head, ...present.map(({ position }) => position));
  return Math.max(0, head - MAX_RECORDS, Math.min(slowest, head - KEEP_RECORDS));
}

export function measureCluster(metrics: Metrics, { state, refused }: Pick<Cluster, "state" | "refused">): void {
  measureRefusals(metrics, refused);
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
