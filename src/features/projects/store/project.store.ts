import { and, desc, eq, lt, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { ProjectRole } from "../../../protocol/enums.ts";
import { projectMembers } from "./member.table.ts";
import { type ProjectRow, projects } from "./project.table.ts";

export type ProjectChange = Partial<Omit<ProjectRow, "id" | "createdAt">>;

export function projectStore(db: Db) {
  const byId = reading(() =>
    db
      .select()
      .from(projects)
      .where(eq(projects.id, sql.placeholder("id")))
      .prepare(),
  );
  const ofUser = reading(() =>
    db
      .select({ project: projects, role: projectMembers.role })
      .from(projectMembers)
      .innerJoin(projects, eq(projects.id, projectMembers.projectId))
      .where(
        and(
          eq(projectMembers.userId, sql.placeholder("userId")),
          lt(projects.id, sql.placeholder("before")),
          sql`(${sql.placeholder("status")} IS NULL OR ${projects.status} = ${sql.placeholder("status")})`,
        ),
      )
      .orderBy(desc(projects.id))
      .limit(sql.placeholder("limit"))
      .prepare(),
  );

  const active = reading(() =>
    db.select().from(projects).where(eq(projects.status, "ACTIVE")).orderBy(desc(projects.id)).prepare(),
  );

  return {
    listActive: (): ProjectRow[] => active.all(),
    find: (id: string): ProjectRow | undefined => byId.get({ id }),
    /** Newest first; `before` is the last id of the page before (ids sort by time). */
    listOf: (
      userId: string,
      status: ProjectRow["status"] | undefined,
      before: string,
      limit: number,
    ): { project: ProjectRow; role: ProjectRole }[] => ofUser.all({ userId, status: status ?? null, before, limit }),
    insert: (unit: Unit, row: ProjectRow) => void run(unit, db.insert(projects).values(row)),
    update: (unit: Unit, id: string, change: ProjectChange) =>
      void run(unit, db.update(projects).set(change).where(eq(projects.id, id))),
  };
}
