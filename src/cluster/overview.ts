import type { Static } from "elysia";
import type { CommitLog, Member } from "../kernel/db/commit-log.ts";
import type { ClusterMember, ClusterOverview } from "./cluster.schema.ts";

type MemberWithLag = Member & { lag: number };
export type Overview = Static<typeof ClusterOverview>;

/** Members report every second. */
const SILENT_AFTER_MS = 10_000;
/** A standby applies records shortly after they are written. */
const BEHIND_AFTER_RECORDS = 1_000;

/** The members according to their last reports to the commit log. */
export async function readMembers(
  log: CommitLog,
): Promise<{ term: number; head: number; leader: string | null; ledForMs: number | null; members: MemberWithLag[] }> {
  const known = await log.known();
  if (known === null) return { term: 0, head: 0, leader: null, ledForMs: null, members: [] };
  const { head, leader } = known;
  const members = (await log.members()).map((member) => ({
    ...member,
    // The last report of a leader that died still has the role of leader.
    role: member.role === "leader" && member.url !== leader ? ("standby" as const) : member.role,
    // An edge has no data that could lag.
    lag: member.role === "edge" ? 0 : Math.max(0, head - member.position),
  }));
  return { ...known, members };
}

/** If the commit log does not respond, only this server's own state is shown. */
export async function clusterOverview(
  log: CommitLog,
  own: { leader: string | null; term: number; position: number; hasBucket: boolean; now: number },
): Promise<Overview> {
  const { leader, term, position, hasBucket, now } = own;
  const at = (agoMs: number) => new Date(now - agoMs).toISOString();
  try {
    const known = await readMembers(log);
    return {
      hasLog: true,
      logAnswers: true,
      hasBucket,
      leader,
      term: known.term,
      position: known.head,
      ledSince: known.ledForMs === null ? null : at(known.ledForMs),
      members: known.members.map(({ silentMs, ...member }) => ({
        ...member,
        state: stateOf(member.lag, silentMs),
        lastHeardAt: at(silentMs),
      })),
    };
  } catch {
    return { hasLog: true, logAnswers: false, hasBucket, leader, term, position, ledSince: null, members: [] };
  }
}

export function singleServerOverview(hasBucket: boolean): Overview {
  const nothing = { leader: null, term: null, ledSince: null, position: null };
  return { hasLog: false, logAnswers: false, hasBucket, ...nothing, members: [] };
}

function stateOf(lag: number, silentMs: number): Static<typeof ClusterMember>["state"] {
  if (silentMs > SILENT_AFTER_MS) return "silent";
  return lag > BEHIND_AFTER_RECORDS ? "behind" : "ok";
}
