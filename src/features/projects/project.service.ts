import { type Author, COMMAND_LINE } from "../../kernel/author.ts";
import { iso } from "../../kernel/clock.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { normalOrigin, type OriginPolicy } from "../../kernel/http/origins.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { ProjectRole } from "../../protocol/enums.ts";
import { ApiError, invalid } from "../../protocol/errors.ts";
import type { MemberService } from "./member.service.ts";
import { type ProjectChange, projectStore } from "./store/project.store.ts";
import type { ProjectRow } from "./store/project.table.ts";

export type ProjectService = ReturnType<typeof projectService>;

export function projectService({ db, ids, now, bus }: Runtime, members: MemberService) {
  const store = projectStore(db);
  const known = new Map<string, ProjectRow>();
  bus.on("projectChanged", ({ projectId }) => void known.delete(projectId));
  bus.on("changedElsewhere", () => known.clear());

  function find(projectId: string): ProjectRow {
    const found = known.get(projectId);
    if (found) return found;
    const row = store.find(projectId);
    if (!row) throw new ApiError("SVC_PROJECT_NOT_FOUND");
    known.set(projectId, row);
    return row;
  }

  // Read on every call of some backends; formatting two dates costs more than the rest of it.
  const shown = new WeakMap<ProjectRow, ReturnType<typeof show>>();
  function shownOf(row: ProjectRow) {
    const found = shown.get(row);
    if (found) return found;
    const made = show(row);
    shown.set(row, made);
    return made;
  }

  /** Writes what differs and records its names; the same values again change nothing. */
  function change(unit: Unit, projectId: string, wanted: ProjectChange, author: Author): ProjectRow {
    const row = store.find(projectId);
    if (!row) throw new ApiError("SVC_PROJECT_NOT_FOUND");
    const fields = (Object.keys(wanted) as (keyof ProjectChange)[]).filter(
      (field) => wanted[field] !== undefined && !Bun.deepEquals(wanted[field], row[field]),
    );
    if (fields.length === 0) return row;
    const at = now();
    const changes = { ...Object.fromEntries(fields.map((field) => [field, wanted[field]])), updatedAt: at };
    store.update(unit, projectId, changes);
    bus.publish(unit, "projectChanged", { projectId });
    bus.publish(unit, "audit", {
      ...author,
      action: "project.updated",
      projectId,
      resourceId: projectId,
      metadata: { fields },
      at,
    });
    return { ...row, ...changes };
  }

  return {
    originPolicy: (projectId: string): OriginPolicy => find(projectId),
    isArchived: (projectId: string): boolean => find(projectId).status === "ARCHIVED",
    find,

    listOf: store.listOf,
    /** Every project in use, whoever it belongs to: for the command line. */
    listActive: store.listActive,
    show: (row: ProjectRow, role: ProjectRole) => ({ ...show(row), role }),
    /** The project as its API key sees it. */
    shown: (projectId: string) => shownOf(find(projectId)),

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
      const { id } = row;
      bus.publish(unit, "audit", {
        ...author,
        action: "project.created",
        projectId: id,
        resourceId: id,
        metadata: {},
        at,
      });
      return { ...show(row), role: "OWNER" as const };
    },

    update: (
      unit: Unit,
      projectId: string,
      { name, description }: { name?: string; description?: string | null },
      by: Author,
    ) =>
      change(unit, projectId, { name, description: description === undefined ? undefined : description || null }, by),

    /** The list as a whole is replaced; each entry is kept as a browser would send it. */
    setOrigins(
      unit: Unit,
      projectId: string,
      wanted: { allowedOrigins: string[]; allowLocalhostOrigins?: boolean },
      by: Author,
    ) {
      const origins = wanted.allowedOrigins.map((text, index) => {
        const origin = normalOrigin(text.trim());
        if (origin === null) throw invalid(`allowedOrigins.${index}`, "must be an origin such as https://example.com");
        return origin;
      });
      const { allowLocalhostOrigins } = wanted;
      return change(unit, projectId, { allowedOrigins: [...new Set(origins)], allowLocalhostOrigins }, by);
    },

    /** Its keys stop, its data stays. Repeating changes nothing. */
    archive(unit: Unit, projectId: string, author: Author): void {
      if (store.find(projectId)?.status === "ARCHIVED") return;
      const at = now();
      store.update(unit, projectId, { status: "ARCHIVED", updatedAt: at });
      bus.publish(unit, "projectChanged", { projectId });
      bus.publish(unit, "audit", {
        ...author,
        action: "project.archived",
        projectId,
        resourceId: projectId,
        metadata: {},
        at,
      });
    },
  };
}

function show(row: ProjectRow) {
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
