import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { tenantColumns } from "../../kernel/db/statements.ts";
import type { LiveStreamHostRole, LiveStreamStatus, LiveStreamVisibility } from "../../protocol/enums.ts";

export const liveStreams = sqliteTable("live_streams", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  ...tenantColumns,
  roomId: text("room_id").notNull().unique(),
  conversationId: text("conversation_id").notNull().unique(),
  conversationPublicId: text("conversation_public_id").notNull(),
  hostIdentity: text("host_identity").notNull(),
  title: text("title").notNull(),
  description: text("description"),
  thumbnailUrl: text("thumbnail_url"),
  category: text("category"),
  tags: text("tags", { mode: "json" }).$type<string[]>().notNull().default([]),
  language: text("language"),
  visibility: text("visibility").$type<LiveStreamVisibility>().notNull().default("PUBLIC"),
  metadata: text("metadata", { mode: "json" }).$type<Record<string, unknown>>(),
  status: text("status").$type<LiveStreamStatus>().notNull().default("CREATED"),
  peakViewerCount: integer("peak_viewer_count").notNull().default(0),
  scheduledAt: integer("scheduled_at"),
  startedAt: integer("started_at"),
  endedAt: integer("ended_at"),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export type HostChatToken = { tokenId: string; expiresAt: number };

export const liveStreamHosts = sqliteTable("live_stream_hosts", {
  streamId: text("stream_id").notNull(),
  identity: text("identity").notNull(),
  role: text("role").$type<LiveStreamHostRole>().notNull(),
  chatTokens: text("chat_tokens", { mode: "json" }).$type<HostChatToken[]>().notNull().default([]),
  addedAt: integer("added_at").notNull(),
  removedAt: integer("removed_at"),
});

export const liveStreamViewers = sqliteTable("live_stream_viewers", {
  streamId: text("stream_id").notNull(),
  identity: text("identity").notNull(),
  joinedAt: integer("joined_at").notNull(),
  leftAt: integer("left_at"),
});

export type LiveStreamRow = typeof liveStreams.$inferSelect;
export type HostRow = typeof liveStreamHosts.$inferSelect;
export type ViewerRow = typeof liveStreamViewers.$inferSelect;
