import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../../../kernel/db/statements.ts";
import type { RingMemberStatus, RingStatus } from "../../../protocol/chat-records.ts";
import { conversationColumn } from "../conversations/conversation.table.ts";

export const rings = sqliteTable("rings", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  ...tenantColumns,
  ...conversationColumn,
  roomId: text("room_id").notNull(),
  /** Null when a backend started the ring. */
  callerUserId: text("caller_user_id"),
  status: text("status").$type<RingStatus>().notNull(),
  metadata: text("metadata"),
  startedAt: integer("started_at").notNull(),
  expiresAt: integer("expires_at").notNull(),
  endedAt: integer("ended_at"),
});

export const ringMembers = sqliteTable("ring_members", {
  ringId: text("ring_id").notNull(),
  userId: text("user_id").notNull(),
  status: text("status").$type<RingMemberStatus>().notNull(),
  at: integer("at"),
});

export type RingRow = typeof rings.$inferSelect;
export type RingMemberRow = typeof ringMembers.$inferSelect;
