import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { AttachmentStatus } from "../../../protocol/chat-records.ts";
import type { Location } from "../../storage/storage.ts";
import { conversations } from "../conversations/conversation.table.ts";

export const attachments = sqliteTable("attachments", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  conversationId: text("conversation_id")
    .notNull()
    .references(() => conversations.id),
  uploaderId: text("uploader_id"),
  filename: text("filename").notNull(),
  mimeType: text("mime_type").notNull(),
  size: integer("size").notNull(),
  /** JSON as text. */
  metadata: text("metadata"),
  status: text("status").$type<AttachmentStatus>().notNull().default("PENDING"),
  sha256: text("sha256"),
  location: text("location").$type<Location>().notNull(),
  /** Where the bytes lie; null until some have arrived, and again once they were removed. */
  objectKey: text("object_key").unique(),
  /** Messages that show it. */
  messageCount: integer("message_count").notNull().default(0),
  createdAt: integer("created_at").notNull(),
});

/** Bytes to remove once the transaction that forgot them is on disk. */
export const storageRemovals = sqliteTable("storage_removals", {
  objectKey: text("object_key").primaryKey(),
  location: text("location").$type<Location>().notNull(),
  /** Not before then: to some an address that was handed out still leads. */
  queuedAt: integer("queued_at").notNull(),
});

export type AttachmentRow = typeof attachments.$inferSelect;
export type StorageRemovalRow = typeof storageRemovals.$inferSelect;
