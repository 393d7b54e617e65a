import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../../../kernel/db/statements.ts";

/** Sessions on the chat socket, for the dashboard. */
export const chatConnections = sqliteTable("chat_connections", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  userId: text("user_id").notNull(),
  /** JSON array of conv_ ids. */
  conversations: text("conversations").notNull().default("[]"),
  messagesSent: integer("messages_sent").notNull().default(0),
  userAgent: text("user_agent"),
  ipAddress: text("ip_address").notNull(),
  connectedAt: integer("connected_at").notNull(),
  disconnectedAt: integer("disconnected_at"),
  closeCode: integer("close_code"),
});

export type ChatConnectionRow = typeof chatConnections.$inferSelect;
