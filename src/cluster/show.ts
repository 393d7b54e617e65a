import type { Static } from "elysia";
import type { CommitLog, Member } from "../kernel/db/commit-log.ts";
import type { ClusterMember, ClusterOverview } from "./cluster.schema.ts";

export type ShownMember = Member & { lag: number };
export type Overview = Static<typeof ClusterOverview>;

/** Members report every second. */
const SILENT_AFTER_MS = 10_000;
/** A standby is told of what was written a moment later. */
const BEHIND_AFTER_RECORDS = 1_000;

/** Members by what they last told the log. */
export async function showCluster(
  log: CommitLog,
): Promise<{ term: number; head: number; leader: string | null; ledForMs: number | null; members: ShownMember[] }> {
  const known = await log.known();
  if (known === null) return { term: 0, head: 0, leader: null, ledForMs: null, members: [] };
  const { head, leader } = known;
  const members = (await log.members()).map((member) => ({
    ...member,
    // One that died while it led has said so last.
    role: member.role === "leader" && member.url !== leader ? ("standby" as const) : member.role,
    // An edge holds nothing that could be behind.
    lag: member.role === "edge" ? 0 : Math.max(0, head - member.position),
  }));
  return { ...known, members };
}

/** The same for people to look at; what is known here when the log does not answer. */
export async function overviewOf(
  log: CommitLog,
  own: { leader: string | null; term: number; position: number; hasBucket: boolean; now: number },
): Promise<Overview> {
  const { leader, term, position, hasBucket, now } = own;
  const at = (agoMs: number) => new Date(now - agoMs).toISOString();
  try {
    const shown = await showCluster(log);
    return {
      ...{ hasLog: true, logAnswers: true, hasBucket, leader, term: shown.term, position: shown.head },
      ledSince: shown.ledForMs === null ? null : at(shown.ledForMs),
      members: shown.members.map(({ silentMs, ...member }) => ({
        ...member,
        state: stateOf(member.lag, silentMs),
        lastHeardAt: at(silentMs),
      })),
    };
  } catch {
    return { hasLog: true, logAnswers: false, hasBucket, leader, term, position, ledSince: null, members: [] };
  }
}

/** A server without a commit log. */
export function aloneOverview(hasBucket: boolean): Overview {
  const nothing = { leader: null, term: null, ledSince: null, position: null };
  return { hasLog: false, logAnswers: false, hasBucket, ...nothing, members: [] };
}

function stateOf(lag: number, silentMs: number): Static<typeof ClusterMember>["state"] {
  if (silentMs > SILENT_AFTER_MS) return "silent";
  return lag > BEHIND_AFTER_RECORDS ? "behind" : "ok";
}
