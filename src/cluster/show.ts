import type { CommitLog, Member } from "../kernel/db/commit-log.ts";

export type ShownMember = Member & { lag: number };

/** Members by what they last told the log. */
export async function showCluster(log: CommitLog): Promise<{ term: number; members: ShownMember[] }> {
  const known = await log.known();
  if (known === null) return { term: 0, members: [] };
  const { head, term } = known;
  const members = (await log.members()).map((member) => ({
    ...member,
    // An edge holds nothing that could be behind.
    lag: member.role === "edge" ? 0 : Math.max(0, head - member.position),
  }));
  return { term, members };
}
