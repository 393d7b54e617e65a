import { integer, sqliteTable, text, unique } from "drizzle-orm/sqlite-core";
import type { ProjectRole } from "../../../protocol/enums.ts";
import { projects } from "../project.table.ts";

/** Open ones only: accepting or withdrawing deletes the row. */
export const invitations = sqliteTable(
  "invitations",
  {
    id: text("id").primaryKey(),
    digest: text("digest").notNull().unique(),
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    email: text("email").notNull(),
    role: text("role").$type<ProjectRole>().notNull(),
    /** Address of who invited; null for the command line. */
    invitedBy: text("invited_by"),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
  },
  (table) => [unique().on(table.projectId, table.email)],
);

export type InvitationRow = typeof invitations.$inferSelect;
