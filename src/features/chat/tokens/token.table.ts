import { index, integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Environment } from "../../../protocol/enums.ts";
import { projects } from "../../projects/project.table.ts";

export const chatTokens = sqliteTable(
  "chat_tokens",
  {
    id: text("id").primaryKey(),
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    environment: text("environment").$type<Environment>().notNull(),
    userId: text("user_id").notNull(),
    createdAt: integer("created_at").notNull(),
    expiresAt: integer("expires_at").notNull(),
    revokedAt: integer("revoked_at"),
  },
  (table) => [index("chat_tokens_by_expiry").on(table.expiresAt)],
);

export type ChatTokenRow = typeof chatTokens.$inferSelect;
