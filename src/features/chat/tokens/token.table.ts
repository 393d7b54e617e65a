import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../conversations/conversation.table.ts";

export const chatTokens = sqliteTable("chat_tokens", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  userId: text("user_id").notNull(),
  createdAt: integer("created_at").notNull(),
  expiresAt: integer("expires_at").notNull(),
  revokedAt: integer("revoked_at"),
});

export type ChatTokenRow = typeof chatTokens.$inferSelect;
