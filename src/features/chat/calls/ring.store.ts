import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { RingMemberStatus, RingStatus } from "../../../protocol/chat-records.ts";
import { type RingMemberRow, type RingRow, ringMembers, rings } from "./ring.table.ts";

export function ringStore({ $client: client }: Db) {
  const select = (where: string) =>
    reading<RingRow, (string | null)[]>(client, `SELECT ${columnsOf(rings)} FROM rings WHERE ${where}`);
  const byId = select("id = ?");
  const byPublicId = select("public_id = ?");
  const openIn = select("room_id = ? AND ended_at IS NULL ORDER BY id");
  const open = select("ended_at IS NULL ORDER BY id");
  // CROSS JOIN makes SQLite begin with the user's rings instead of all rings of the project.
  const openOf = reading<RingRow, [string, string, string]>(
    client,
    `SELECT ${columnsOf(rings, "r")} FROM ring_members m CROSS JOIN rings r ON r.id = m.ring_id
       WHERE m.user_id = ? AND m.status = 'RINGING' AND r.ended_at IS NULL AND r.project_id = ? AND r.environment = ?
       ORDER BY m.ring_id`,
  );
  const members = reading<RingMemberRow, [string]>(
    client,
    `SELECT ${columnsOf(ringMembers)} FROM ring_members WHERE ring_id = ? ORDER BY user_id`,
  );
  const settle = changing(
    client,
    "UPDATE ring_members SET status = ?3, at = ?4 WHERE ring_id = ?1 AND user_id = ?2 AND status = 'RINGING'",
  );
  const end = changing(client, "UPDATE rings SET status = ?2, ended_at = ?3 WHERE id = ?1");
  const prune = changing(
    client,
    "DELETE FROM rings WHERE id IN (SELECT id FROM rings WHERE started_at < ? AND ended_at IS NOT NULL LIMIT ?)",
  );

  return {
    get: (id: string): RingRow | null => byId.get(id),
    find: (publicId: string): RingRow | null => byPublicId.get(publicId),
    insert: inserter<RingRow>(client, rings),
    insertMember: inserter<RingMemberRow>(client, ringMembers),
    members: (ringId: string): RingMemberRow[] => members.all(ringId),
    openIn: (roomId: string): RingRow[] => openIn.all(roomId),
    open: (): RingRow[] => open.all(),
    /** Open rings that the user has not answered. */
    openOf: ({ projectId, environment }: Tenant, userId: string): RingRow[] =>
      openOf.all(userId, projectId, environment),
    /** False when the member has responded before. */
    settle: (unit: Unit, ringId: string, userId: string, status: RingMemberStatus, at: number): boolean =>
      settle.run(unit, ringId, userId, status, at).changes > 0,
    end: (unit: Unit, id: string, status: RingStatus, at: number) => void end.run(unit, id, status, at),
    /** True when more rows may match. */
    prune: (unit: Unit, before: number, limit: number): boolean => prune.run(unit, before, limit).changes >= limit,
  };
}
