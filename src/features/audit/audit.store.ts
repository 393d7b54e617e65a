import { and, desc, eq, lt, sql } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import { reading, run } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { AuditActionName } from "../../protocol/enums.ts";
import { type AuditRow, auditEntries } from "./audit.table.ts";

type AuditFilter = { action?: AuditActionName; actorId?: string; resourceId?: string };

export function auditStore(db: Db) {
  const given = (name: string, column: typeof auditEntries.action | typeof auditEntries.actorId) =>
    sql`(${sql.placeholder(name)} IS NULL OR ${column} = ${sql.placeholder(name)})`;
  const newest = reading(() =>
    db
      .select()
      .from(auditEntries)
      .where(
        and(
          eq(auditEntries.projectId, sql.placeholder("projectId")),
          lt(auditEntries.id, sql.placeholder("before")),
          given("action", auditEntries.action),
          given("actorId", auditEntries.actorId),
          sql`(${sql.placeholder("resourceId")} IS NULL OR ${auditEntries.resourceId} = ${sql.placeholder("resourceId")})`,
        ),
      )
      .orderBy(desc(auditEntries.id))
      .limit(sql.placeholder("limit"))
      .prepare(),
  );

  return {
    insert: (unit: Unit, row: AuditRow) => void run(unit, db.insert(auditEntries).values(row)),
    /** Newest first; `before` is the last id of the page before (ids sort by time). */
    list: (projectId: string, filter: AuditFilter, before: string, limit: number): AuditRow[] =>
      newest.all({
        projectId,
        before,
        limit,
        action: filter.action ?? null,
        actorId: filter.actorId ?? null,
        resourceId: filter.resourceId ?? null,
      }),
  };
}
