import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { ProjectRole } from "../../../protocol/enums.ts";
import { users } from "../../accounts/user.table.ts";
import { projects } from "../project.table.ts";

export const projectMembers = sqliteTable(
  "project_members",
  {
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    userId: text("user_id")
      .notNull()
      .references(() => users.id),
    role: text("role").$type<ProjectRole>().notNull(),
    addedAt: integer("added_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.projectId, table.userId] })],
);

export type MemberRow = typeof projectMembers.$inferSelect;
