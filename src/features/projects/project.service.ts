import { type Author, COMMAND_LINE } from "../../kernel/author.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { normalOrigin, type OriginPolicy } from "../../kernel/http/origins.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { iso } from "../../kernel/time/clock.ts";
import type { ProjectRole } from "../../protocol/enums.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import type { MemberService } from "./member.service.ts";
import { projectStore } from "./project.store.ts";
import type { ProjectRow } from "./project.table.ts";

type ProjectChange = Partial<Omit<ProjectRow, "id" | "createdAt">>;

export type ProjectService = ReturnType<typeof projectService>;

export function projectService({ db, ids, now, bus }: Runtime, members: MemberService) {
  const store = projectStore(db);
  const cached = new Map<string, ProjectRow>();
  bus.on("projectChanged", ({ projectId }) => void cached.delete(projectId));
  bus.on("changedElsewhere", () => cached.clear());

  function read(projectId: string): ProjectRow {
    const row = store.find(projectId);
    if (!row) throw new ApiError("SVC_PROJECT_NOT_FOUND");
    return row;
  }

  function find(projectId: string): ProjectRow {
    const row = cached.get(projectId) ?? read(projectId);
    cached.set(projectId, row);
    return row;
  }

  // Some backends read their project on every request, and formatting two dates costs more than the rest of the
  // request.
  const presented = new WeakMap<ProjectRow, ReturnType<typeof present>>();
  function presentCached(row: ProjectRow) {
    const record = presented.get(row) ?? present(row);
    presented.set(row, record);
    return record;
  }

  function audit(
    unit: Unit,
    action: "project.created" | "project.updated" | "project.archived",
    projectId: string,
    author: Author,
    metadata: Record<string, unknown> = {},
  ): void {
    bus.publish(unit, "audit", { ...author, action, projectId, resourceId: projectId, metadata, at: now() });
  }

  /** Writes and audits the fields that differ; unchanged values have no effect. */
  function change(unit: Unit, projectId: string, input: ProjectChange, author: Author): ProjectRow {
    const row = read(projectId);
    const fields = (Object.keys(input) as (keyof ProjectChange)[]).filter(
      (field) => input[field] !== undefined && !Bun.deepEquals(input[field], row[field]),
    );
    if (fields.length === 0) return row;
    const changes = { ...Object.fromEntries(fields.map((field) => [field, input[field]])), updatedAt: now() };
    store.update(unit, projectId, changes);
    bus.publish(unit, "projectChanged", { projectId });
    audit(unit, "project.updated", projectId, author, { fields });
    return { ...row, ...changes };
  }

  return {
    originPolicy: (projectId: string): OriginPolicy => find(projectId),
    isArchived: (projectId: string): boolean => find(projectId).status === "ARCHIVED",
    find,

    memberships: store.memberships,
    /** The active projects of all users, for the command line. */
    listActive: store.listActive,
    present: (row: ProjectRow, role: ProjectRole) => ({ ...present(row), role }),
    /** The project as its API key reads it. */
    presentToKey: (projectId: string) => presentCached(find(projectId)),

    create(
      unit: Unit,
      ownerId: string,
      input: { name: string; description?: string | null },
      author: Author = COMMAND_LINE,
    ) {
      const at = now();
      const row: ProjectRow = {
        id: ids.uuid(),
        name: input.name,
        description: input.description || null,
        status: "ACTIVE",
        allowedOrigins: [],
        allowLocalhostOrigins: true,
        createdAt: at,
        updatedAt: at,
      };
      store.insert(unit, row);
      members.join(unit, row.id, ownerId, "OWNER");
      audit(unit, "project.created", row.id, author);
      return { ...present(row), role: "OWNER" as const };
    },

    update: (
      unit: Unit,
      projectId: string,
      { name, description }: { name?: string; description?: string | null },
      author: Author,
    ) =>
      change(
        unit,
        projectId,
        { name, description: description === undefined ? undefined : description || null },
        author,
      ),

    /** Replaces the whole list. Each entry is stored in the form of the browser's Origin header. */
    setOrigins(
      unit: Unit,
      projectId: string,
      input: { allowedOrigins: string[]; allowLocalhostOrigins?: boolean },
      author: Author,
    ) {
      const origins = input.allowedOrigins.map((text, index) => {
        const origin = normalOrigin(text.trim());
        if (origin === null) throw invalid(`allowedOrigins.${index}`, "must be an origin such as https://example.com");
        return origin;
      });
      const { allowLocalhostOrigins } = input;
      return change(unit, projectId, { allowedOrigins: [...new Set(origins)], allowLocalhostOrigins }, author);
    },

    /** The project's API keys stop working and its data stays. Archiving again has no effect. */
    archive(unit: Unit, projectId: string, author: Author): void {
      if (store.find(projectId)?.status === "ARCHIVED") return;
      store.update(unit, projectId, { status: "ARCHIVED", updatedAt: now() });
      bus.publish(unit, "projectChanged", { projectId });
      audit(unit, "project.archived", projectId, author);
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
