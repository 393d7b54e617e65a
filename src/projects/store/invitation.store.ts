import { and, desc, eq, gt, lt, lte, sql } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { type InvitationRow, invitations } from "./invitation.table.ts";

export function invitationStore(db: Db) {
  const byDigest = db
    .select()
    .from(invitations)
    .where(and(eq(invitations.digest, sql.placeholder("digest")), gt(invitations.expiresAt, sql.placeholder("at"))))
    .prepare();
  const newest = db
    .select()
    .from(invitations)
    .where(
      and(
        eq(invitations.projectId, sql.placeholder("projectId")),
        gt(invitations.expiresAt, sql.placeholder("at")),
        lt(invitations.id, sql.placeholder("before")),
      ),
    )
    .orderBy(desc(invitations.id))
    .limit(sql.placeholder("limit"))
    .prepare();

  return {
    findByDigest: (digest: string, at: number): InvitationRow | undefined => byDigest.get({ digest, at }),
    /** Newest first; `before` is the last id of the page before (ids sort by time). */
    list: (projectId: string, at: number, before: string, limit: number): InvitationRow[] =>
      newest.all({ projectId, at, before, limit }),
    /** A second invitation of an address takes the place of the first, whose link then stops. */
    replace(_unit: Unit, row: InvitationRow): void {
      db.delete(invitations)
        .where(and(eq(invitations.projectId, row.projectId), eq(invitations.email, row.email)))
        .run();
      db.insert(invitations).values(row).run();
    },
    delete: (_unit: Unit, projectId: string, id: string): boolean =>
      db
        .delete(invitations)
        .where(and(eq(invitations.projectId, projectId), eq(invitations.id, id)))
        .returning({ id: invitations.id })
        .all().length > 0,
    deleteExpired: (_unit: Unit, at: number) => void db.delete(invitations).where(lte(invitations.expiresAt, at)).run(),
  };
}
