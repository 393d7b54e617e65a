import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading, rowsOf } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { ProjectRole } from "../../protocol/enums.ts";

export const projectMembers = sqliteTable("project_members", {
  projectId: text("project_id").notNull(),
  userId: text("user_id").notNull(),
  role: text("role").$type<ProjectRole>().notNull(),
  addedAt: integer("added_at").notNull(),
});

type MemberRow = typeof projectMembers.$inferSelect;

/** A membership with the public fields of its user. */
export type Member = MemberRow & { email: string; name: string | null };

export function memberStore({ $client: client }: Db) {
  const membership = rowsOf(client, projectMembers)<[string, string]>("WHERE project_id = ? AND user_id = ?");
  const select = `SELECT ${columnsOf(projectMembers, "m")}, u.email, u.name
    FROM project_members m JOIN users u ON u.id = m.user_id`;
  const byUser = reading<Member, [string, string]>(client, `${select} WHERE m.project_id = ? AND m.user_id = ?`);
  const newest = reading<Member, [string, number, string, number]>(
    client,
    `${select} WHERE m.project_id = ? AND (m.added_at, m.user_id) < (?, ?)
       ORDER BY m.added_at DESC, m.user_id DESC LIMIT ?`,
  );
  const owners = reading<{ count: number }, [string]>(
    client,
    "SELECT count(*) AS count FROM project_members WHERE project_id = ? AND role = 'OWNER'",
  );
  const setRole = changing<[ProjectRole, string, string]>(
    client,
    "UPDATE project_members SET role = ? WHERE project_id = ? AND user_id = ?",
  );
  const remove = changing<[string, string]>(client, "DELETE FROM project_members WHERE project_id = ? AND user_id = ?");

  return {
    roleIn: (projectId: string, userId: string): ProjectRole | null => membership.get(projectId, userId)?.role ?? null,
    find: (projectId: string, userId: string) => byUser.get(projectId, userId),
    /** Newest first; `addedAt` and `userId` are those of the last member of the previous page. */
    list: (projectId: string, addedAt: number, userId: string, limit: number) =>
      newest.all(projectId, addedAt, userId, limit),
    ownerCount: (projectId: string) => owners.get(projectId)?.count ?? 0,
    insert: inserter<MemberRow>(client, projectMembers),
    setRole: (unit: Unit, projectId: string, userId: string, role: ProjectRole) =>
      void setRole.run(unit, role, projectId, userId),
    delete: (unit: Unit, projectId: string, userId: string) => void remove.run(unit, projectId, userId),
  };
}
