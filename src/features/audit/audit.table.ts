import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { AuditActionName, AuditResourceType, Environment } from "../../protocol/enums.ts";
import { projects } from "../projects/project.table.ts";

/** Triggers of the database refuse to change or delete a row. */
export const auditEntries = sqliteTable("audit_entries", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  projectId: text("project_id")
    .notNull()
    .references(() => projects.id),
  environment: text("environment").$type<Environment>().notNull(),
  actorId: text("actor_id"),
  actorEmail: text("actor_email"),
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
