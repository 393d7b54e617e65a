import type { CommitLog } from "../kernel/db/commit-log.ts";
import type { Log } from "../kernel/log.ts";
import { every, type Timers } from "../kernel/timers.ts";
import { VERSION } from "../kernel/version.ts";
import type { ClusterState } from "./cluster.ts";

const REPORT_EVERY_MS = 1_000;
const TRIM_EVERY_MS = 60_000;
/** Whoever was not heard of for longer gets a snapshot when it comes back. */
const WAIT_FOR_MEMBER_MS = 600_000;
/** Kept for those who are away for a moment only. */
const KEEP_RECORDS = 10_000;
/** However slow somebody is: the log is no archive. */
const MOST_RECORDS = 1_000_000;

type UpkeepDeps = { commitLog: CommitLog; url: string; state: () => ClusterState; log: Log; timers: Timers };

/** Tells the others how far this member is. */
export function reportState({ commitLog, url, state, log, timers }: UpkeepDeps): () => void {
  return every({ timers, log }, REPORT_EVERY_MS, async () => {
    const { role, position } = state();
    // A log that is away is told about where it is needed.
    await commitLog.report({ url, role, position, version: VERSION }).catch(() => {});
  });
}

/** Forgets what every member has. */
export function trimLog(deps: Pick<UpkeepDeps, "commitLog" | "state" | "log" | "timers">): () => void {
  return every(deps, TRIM_EVERY_MS, async () => {
    try {
      await deps.commitLog.forgetUpTo(await forgettable(deps.commitLog, deps.state().position));
    } catch (error) {
      deps.log.debug({ err: error }, "the commit log was not trimmed");
    }
  });
}

export async function forgettable(commitLog: Pick<CommitLog, "members">, head: number): Promise<number> {
  const present = (await commitLog.members()).filter(
    ({ role, silentMs }) => role !== "edge" && silentMs < WAIT_FOR_MEMBER_MS,
  );
  const slowest = Math.min(head, ...present.map(({ position }) => position));
  return Math.max(0, head - MOST_RECORDS, Math.min(slowest, head - KEEP_RECORDS));
}
