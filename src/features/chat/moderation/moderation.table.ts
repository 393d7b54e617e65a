import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../../../kernel/db/statements.ts";
import type { ReportAction, ReportReason, ReportStatus } from "../../../protocol/chat-records.ts";
import { conversationColumn } from "../conversations/conversation.table.ts";

export const chatBlocks = sqliteTable("chat_blocks", {
  ...tenantColumns,
  userId: text("user_id").notNull(),
  blockedUserId: text("blocked_user_id").notNull(),
  createdAt: integer("created_at").notNull(),
});

/** Reports hold no text: a moderator reads the current state of the message. */
export const messageReports = sqliteTable("message_reports", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  ...tenantColumns,
  ...conversationColumn,
  /** The public id, because the report outlives a message that retention removes. */
  messageId: text("message_id").notNull(),
  senderId: text("sender_id"),
  reporterUserId: text("reporter_user_id").notNull(),
  reason: text("reason").$type<ReportReason>().notNull(),
  noteText: text("note_text"),
  status: text("status").$type<ReportStatus>().notNull(),
  action: text("action").$type<ReportAction>(),
  createdAt: integer("created_at").notNull(),
  resolvedAt: integer("resolved_at"),
});

export const chatWordLists = sqliteTable("chat_word_lists", {
  ...tenantColumns,
  words: text("words").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export type BlockRow = typeof chatBlocks.$inferSelect;
export type ReportRow = typeof messageReports.$inferSelect;
