import { and, desc, eq, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { ProjectRole } from "../../../protocol/enums.ts";
import { users } from "../../accounts/user.table.ts";
import { type MemberRow, projectMembers } from "./member.table.ts";

/** A membership with what is shown of its user. */
export type Member = MemberRow & { email: string; name: string | null };

export function memberStore(db: Db) {
  const columns = {
    projectId: projectMembers.projectId,
    userId: projectMembers.userId,
    role: projectMembers.role,
    addedAt: projectMembers.addedAt,
    email: users.email,
    name: users.name,
  };
  const inProject = eq(projectMembers.projectId, sql.placeholder("projectId"));
  const role = reading(() =>
    db
      .select({ role: projectMembers.role })
      .from(projectMembers)
      .where(and(inProject, eq(projectMembers.userId, sql.placeholder("userId"))))
      .prepare(),
  );
  const one = reading(() =>
    db
      .select(columns)
      .from(projectMembers)
      .innerJoin(users, eq(users.id, projectMembers.userId))
      .where(and(inProject, eq(projectMembers.userId, sql.placeholder("userId"))))
      .prepare(),
  );
  const newest = reading(() =>
    db
      .select(columns)
      .from(projectMembers)
      .innerJoin(users, eq(users.id, projectMembers.userId))
      .where(
        and(
          inProject,
          sql`(${projectMembers.addedAt}, ${projectMembers.userId}) < (${sql.placeholder("at")}, ${sql.placeholder("userId")})`,
        ),
      )
      .orderBy(desc(projectMembers.addedAt), desc(projectMembers.userId))
      .limit(sql.placeholder("limit"))
      .prepare(),
  );
  const owners = reading(() =>
    db
      .select({ count: sql<number>`count(*)` })
      .from(projectMembers)
      .where(and(inProject, eq(projectMembers.role, "OWNER")))
      .prepare(),
  );
  const isMember = (projectId: string, userId: string) =>
    and(eq(projectMembers.projectId, projectId), eq(projectMembers.userId, userId));

  return {
    roleIn: (projectId: string, userId: string): ProjectRole | null => role.get({ projectId, userId })?.role ?? null,
    find: (projectId: string, userId: string): Member | undefined => one.get({ projectId, userId }),
    /** Newest first; `at` and `userId` are those of the last member of the page before. */
    list: (projectId: string, at: number, userId: string, limit: number): Member[] =>
      newest.all({ projectId, at, userId, limit }),
    ownerCount: (projectId: string): number => owners.get({ projectId })?.count ?? 0,
    insert: (unit: Unit, row: MemberRow) => void run(unit, db.insert(projectMembers).values(row)),
    setRole: (unit: Unit, projectId: string, userId: string, role: ProjectRole) =>
      void run(unit, db.update(projectMembers).set({ role }).where(isMember(projectId, userId))),
    delete: (unit: Unit, projectId: string, userId: string) =>
      void run(unit, db.delete(projectMembers).where(isMember(projectId, userId))),
  };
}
