import { iso } from "../kernel/clock.ts";
import type { OriginPolicy } from "../kernel/http/origins.ts";
import type { Environment, ProjectRole } from "../protocol/enums.ts";
import { ApiError } from "../protocol/errors.ts";
import type { Runtime } from "../runtime.ts";
import { projectStore } from "./project.store.ts";
import type { ProjectRow } from "./project.table.ts";

export type ProjectService = ReturnType<typeof projectService>;

/** Mutations are units of work: call them inside `write`. */
export function projectService({ db, ids, now, bus }: Runtime) {
  const store = projectStore(db);
  const known = new Map<string, ProjectRow>();
  bus.on("projectChanged", ({ projectId }) => void known.delete(projectId));

  function find(projectId: string): ProjectRow {
    const row = known.get(projectId) ?? store.find(projectId);
    if (!row) throw new ApiError("SVC_PROJECT_NOT_FOUND");
    known.set(projectId, row);
    return row;
  }

  return {
    originPolicy: (projectId: string): OriginPolicy => find(projectId),

    roleIn: (projectId: string, userId: string): ProjectRole | null =>
      store.findMember(projectId, userId)?.role ?? null,

    /** The project as its API key sees it. */
    show: (projectId: string, environment: Environment) => ({ ...present(find(projectId)), environment }),

    /** Makes a user a member; callers have checked that nobody forbids it. */
    join(projectId: string, userId: string, role: ProjectRole): void {
      store.insertMember({ projectId, userId, role, addedAt: now() });
    },

    create(ownerId: string, input: { name: string; description?: string }) {
      const at = now();
      const row: ProjectRow = {
        id: ids.uuid(),
        name: input.name,
        description: input.description ?? null,
        status: "ACTIVE",
        allowedOrigins: [],
        allowLocalhostOrigins: true,
        createdAt: at,
        updatedAt: at,
      };
      store.insert(row);
      store.insertMember({ projectId: row.id, userId: ownerId, role: "OWNER", addedAt: at });
      return { ...present(row), role: "OWNER" as const };
    },
  };
}

function present(row: ProjectRow) {
  return {
    id: row.id,
    name: row.name,
    description: row.description,
    status: row.status,
    allowedOrigins: row.allowedOrigins,
    allowLocalhostOrigins: row.allowLocalhostOrigins,
    createdAt: iso(row.createdAt),
    updatedAt: iso(row.updatedAt),
  };
}
