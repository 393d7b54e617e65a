import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../../../kernel/db/statements.ts";
import type {
  ChatMemberRole,
  ChatMemberStatus,
  ConversationStatus,
  ConversationType,
} from "../../../protocol/chat-records.ts";

export const conversations = sqliteTable("conversations", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  ...tenantColumns,
  name: text("name").notNull(),
  type: text("type").$type<ConversationType>().notNull(),
  status: text("status").$type<ConversationStatus>().notNull().default("ACTIVE"),
  roomId: text("room_id").unique(),
  retentionDays: integer("retention_days"),
  /** JSON as text. */
  metadata: text("metadata"),
  slowModeSeconds: integer("slow_mode_seconds").notNull().default(0),
  memberCount: integer("member_count").notNull().default(0),
  lastSeq: integer("last_seq").notNull().default(0),
  logStartSeq: integer("log_start_seq").notNull().default(0),
  lastOrdinal: integer("last_ordinal").notNull().default(0),
  removedOrdinal: integer("removed_ordinal").notNull().default(0),
  messageCount: integer("message_count").notNull().default(0),
  reactionCount: integer("reaction_count").notNull().default(0),
  day: integer("day").notNull().default(0),
  dayStartOrdinal: integer("day_start_ordinal").notNull().default(0),
  lastMessageAt: integer("last_message_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export const conversationColumn = {
  conversationId: text("conversation_id").notNull(),
};

export const conversationMembers = sqliteTable("conversation_members", {
  ...conversationColumn,
  userId: text("user_id").notNull(),
  role: text("role").$type<ChatMemberRole>().notNull().default("MEMBER"),
  status: text("status").$type<ChatMemberStatus>().notNull().default("ACTIVE"),
  mutedUntil: integer("muted_until"),
  /** The display name. */
  name: text("name"),
  metadata: text("metadata"),
  joinedAt: integer("joined_at").notNull(),
  leftAt: integer("left_at"),
});

export type ConversationRow = typeof conversations.$inferSelect;
export type MemberRow = typeof conversationMembers.$inferSelect;
