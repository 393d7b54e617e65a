import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../kernel/db/open.ts";
import { filteredBy, inserter, rowsOf } from "../../kernel/db/statements.ts";
import type { AuditActionName, AuditActorType, AuditResourceType, Environment } from "../../protocol/enums.ts";

/** Triggers of the database prevent changes and deletions of rows. */
export const auditEntries = sqliteTable("audit_entries", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  /** Null for an action on the installation, which has no environment either. */
  projectId: text("project_id"),
  environment: text("environment").$type<Environment>(),
  actorType: text("actor_type").$type<AuditActorType>().notNull(),
  actorId: text("actor_id"),
  actorEmail: text("actor_email"),
  actorName: text("actor_name"),
  action: text("action").$type<AuditActionName>().notNull(),
  resourceType: text("resource_type").$type<AuditResourceType>().notNull(),
  resourceId: text("resource_id").notNull(),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, unknown>>().notNull(),
  requestId: text("request_id"),
  ipAddress: text("ip_address"),
  userAgent: text("user_agent"),
  createdAt: integer("created_at").notNull(),
});

export type AuditRow = typeof auditEntries.$inferSelect;
type AuditFilter = { action?: AuditActionName; actorId?: string; resourceId?: string };

export function auditStore({ $client: client }: Db) {
  const newest = filteredBy((conditions) =>
    rowsOf(
      client,
      auditEntries,
    )<(string | number | null)[]>(`WHERE project_id IS ? AND id < ?${conditions} ORDER BY id DESC LIMIT ?`),
  );
  return {
    insert: inserter<AuditRow>(client, auditEntries),
    /**
     * Newest first; without a project, the entries of the installation. `before` is the last id of the previous page.
     */
    list(projectId: string | null, { action, actorId, resourceId }: AuditFilter, before: string, limit: number) {
      const filters = { "action = ?": action, "actor_id = ?": actorId, "resource_id = ?": resourceId };
      const { statement, values } = newest(filters);
      return statement.all(projectId, before, ...values, limit);
    },
  };
}
