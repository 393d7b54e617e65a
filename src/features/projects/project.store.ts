import type { Db } from "../../kernel/db/open.ts";
import { inserter, reading, rowsOf, updater } from "../../kernel/db/statements.ts";
import type { ProjectRole } from "../../protocol/enums.ts";
import { type ProjectRow, projects } from "./project.table.ts";

export function projectStore({ $client: client }: Db) {
  const select = rowsOf(client, projects);
  const byId = select<[string]>("WHERE id = ?");
  const active = select<[]>("WHERE status = 'ACTIVE' ORDER BY id DESC");
  const memberships = reading<{ id: string; role: ProjectRole }, [string, string, string | null, number]>(
    client,
    `SELECT p.id, m.role FROM project_members m JOIN projects p ON p.id = m.project_id
       WHERE m.user_id = ?1 AND p.id < ?2 AND (?3 IS NULL OR p.status = ?3) ORDER BY p.id DESC LIMIT ?4`,
  );

  return {
    listActive: (): ProjectRow[] => active.all(),
    find: (id: string) => byId.get(id),
    /** The user's projects, newest first. `before` is the last id of the previous page; ids sort by time. */
    memberships: (userId: string, status: ProjectRow["status"] | undefined, before: string, limit: number) =>
      memberships.all(userId, before, status ?? null, limit),
    insert: inserter<ProjectRow>(client, projects),
    update: updater(client, projects),
  };
}
