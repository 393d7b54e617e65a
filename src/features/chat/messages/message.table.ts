import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { ChatEventType } from "../../../protocol/chat-events.ts";
import type { MessageType } from "../../../protocol/chat-records.ts";
import { conversationColumn } from "../conversations/conversation.table.ts";

export const messages = sqliteTable("messages", {
  id: integer("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  ...conversationColumn,
  seq: integer("seq").notNull(),
  ordinal: integer("ordinal").notNull(),
  senderId: text("sender_id"),
  type: text("type").$type<MessageType>().notNull(),
  text: text("text"),
  replyTo: text("reply_to"),
  threadRootId: text("thread_root_id"),
  replyCount: integer("reply_count").notNull().default(0),
  clientMessageId: text("client_message_id"),
  attachment: text("attachment"),
  metadata: text("metadata"),
  reactionCount: integer("reaction_count").notNull().default(0),
  pinnedAt: integer("pinned_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
  editedAt: integer("edited_at"),
  deletedAt: integer("deleted_at"),
  deletedBy: text("deleted_by"),
  /** JSON array of user ids; null without mentions. */
  mentions: text("mentions"),
});

export const conversationEvents = sqliteTable("conversation_events", {
  ...conversationColumn,
  seq: integer("seq").notNull(),
  type: text("type").$type<ChatEventType>().notNull(),
  at: integer("at").notNull(),
  messageId: text("message_id"),
  detail: text("detail"),
});

export const readStates = sqliteTable("read_states", {
  ...conversationColumn,
  userId: text("user_id").notNull(),
  lastReadMessageId: text("last_read_message_id").notNull(),
  lastReadSeq: integer("last_read_seq").notNull(),
  lastReadOrdinal: integer("last_read_ordinal").notNull(),
  lastReadAt: integer("last_read_at").notNull(),
});

export type MessageRow = typeof messages.$inferSelect;
export type EventRow = typeof conversationEvents.$inferSelect;
export type ReadStateRow = typeof readStates.$inferSelect;
