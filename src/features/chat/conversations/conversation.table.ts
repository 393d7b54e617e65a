import { sql } from "drizzle-orm";
import { index, integer, primaryKey, sqliteTable, text, uniqueIndex } from "drizzle-orm/sqlite-core";
import type {
  ChatMemberRole,
  ChatMemberStatus,
  ConversationStatus,
  ConversationType,
} from "../../../protocol/chat-records.ts";
import type { Environment } from "../../../protocol/enums.ts";
import { projects } from "../../projects/project.table.ts";

/** The project and environment that own a row. */
export const tenantColumns = {
  projectId: text("project_id")
    .notNull()
    .references(() => projects.id),
  environment: text("environment").$type<Environment>().notNull(),
};

export const conversations = sqliteTable(
  "conversations",
  {
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
  },
  (table) => [
    uniqueIndex("conversations_by_name").on(table.projectId, table.environment, table.name),
    index("conversations_by_time").on(table.projectId, table.environment, table.id),
    index("conversations_of_rooms").on(table.projectId, table.environment).where(sql`room_id IS NOT NULL`),
  ],
);

export const conversationColumn = {
  conversationId: text("conversation_id")
    .notNull()
    .references(() => conversations.id),
};

export const conversationMembers = sqliteTable(
  "conversation_members",
  {
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
  },
  (table) => [
    primaryKey({ columns: [table.conversationId, table.userId] }),
    index("conversation_members_by_user").on(table.userId, table.conversationId),
    index("conversation_members_by_time").on(table.conversationId, table.joinedAt, table.userId),
  ],
);

export type ConversationRow = typeof conversations.$inferSelect;
export type MemberRow = typeof conversationMembers.$inferSelect;
