import type { CommitLog, Leadership } from "../kernel/db/commit-log.ts";
import type { Log } from "../kernel/log.ts";
import { every, type Timers } from "../kernel/timers.ts";

const LOOK_EVERY_MS = 1_000;
const ANSWER_WITHIN_MS = 1_000;

type PeersDeps = { commitLog: CommitLog; leadership: Leadership; url: string; log: Log; timers: Timers };

/**
 * A leader that does not reach the log cannot be told by it that another server leads. The other servers can: while it
 * is not sure it asks them, and steps down when one of them leads.
 */
export function watchPeers({ commitLog, leadership, url, log, timers }: PeersDeps, onOther: (reason: string) => void) {
  let peers: string[] = [];
  return every({ timers, log }, LOOK_EVERY_MS, async () => {
    if (leadership.unsureSince === null) {
      const members = await commitLog.members().catch(() => null);
      if (members !== null) peers = members.map((member) => member.url).filter((member) => member !== url);
      return;
    }
    const leads = await Promise.all(peers.map(leadsNow));
    const other = peers.find((_, index) => leads[index]);
    if (other !== undefined) onOther(`${other} leads, and the log cannot be reached from here`);
  });
}

async function leadsNow(peer: string): Promise<boolean> {
  try {
    const response = await fetch(`${peer}/readyz`, { signal: AbortSignal.timeout(ANSWER_WITHIN_MS), keepalive: false });
    return ((await response.json()) as { role?: string }).role === "leader";
  } catch {
    return false;
  }
}
