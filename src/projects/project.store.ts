import { and, eq, sql } from "drizzle-orm";
import type { Db } from "../kernel/db/open.ts";
import { type ProjectMemberRow, type ProjectRow, projectMembers, projects } from "./project.table.ts";

export function projectStore(db: Db) {
  const byId = db
    .select()
    .from(projects)
    .where(eq(projects.id, sql.placeholder("id")))
    .prepare();
  const membership = db
    .select()
    .from(projectMembers)
    .where(
      and(
        eq(projectMembers.projectId, sql.placeholder("projectId")),
        eq(projectMembers.userId, sql.placeholder("userId")),
      ),
    )
    .prepare();

  return {
    find: (id: string): ProjectRow | undefined => byId.get({ id }),
    insert: (row: ProjectRow) => void db.insert(projects).values(row).run(),
    findMember: (projectId: string, userId: string): ProjectMemberRow | undefined =>
      membership.get({ projectId, userId }),
    insertMember: (row: ProjectMemberRow) => void db.insert(projectMembers).values(row).run(),
  };
}
