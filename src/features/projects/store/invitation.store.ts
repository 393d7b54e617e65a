import { and, desc, eq, gt, lt, lte, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { type InvitationRow, invitations } from "./invitation.table.ts";

export function invitationStore(db: Db) {
  const byDigest = reading(() =>
    db
      .select()
      .from(invitations)
      .where(and(eq(invitations.digest, sql.placeholder("digest")), gt(invitations.expiresAt, sql.placeholder("at"))))
      .prepare(),
  );
  const newest = reading(() =>
    db
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
      .prepare(),
  );

  const remove = changing(() =>
    db
      .delete(invitations)
      .where(and(eq(invitations.projectId, sql.placeholder("projectId")), eq(invitations.id, sql.placeholder("id"))))
      .returning({ id: invitations.id })
      .prepare(),
  );

  return {
    findByDigest: (digest: string, at: number): InvitationRow | undefined => byDigest.get({ digest, at }),
    /** Newest first; `before` is the last id of the page before (ids sort by time). */
    list: (projectId: string, at: number, before: string, limit: number): InvitationRow[] =>
      newest.all({ projectId, at, before, limit }),
    /** A second invitation of an address takes the place of the first, whose link then stops. */
    replace(unit: Unit, row: InvitationRow): void {
      run(
        unit,
        db.delete(invitations).where(and(eq(invitations.projectId, row.projectId), eq(invitations.email, row.email))),
      );
      run(unit, db.insert(invitations).values(row));
    },
    delete: (unit: Unit, projectId: string, id: string): boolean => remove.all(unit, { projectId, id }).length > 0,
    deleteExpired: (unit: Unit, at: number) =>
      void run(unit, db.delete(invitations).where(lte(invitations.expiresAt, at))),
  };
}
