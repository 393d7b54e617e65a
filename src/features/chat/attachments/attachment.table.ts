import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { AttachmentStatus } from "../../../protocol/chat-records.ts";
import type { Location } from "../../storage/storage.ts";
import { conversationColumn } from "../conversations/conversation.table.ts";

export const attachments = sqliteTable("attachments", {
  id: text("id").primaryKey(),
  publicId: text("public_id").notNull().unique(),
  ...conversationColumn,
  uploaderId: text("uploader_id"),
  filename: text("filename").notNull(),
  mimeType: text("mime_type").notNull(),
  size: integer("size").notNull(),
  /** JSON as text. */
  metadata: text("metadata"),
  status: text("status").$type<AttachmentStatus>().notNull().default("PENDING"),
  sha256: text("sha256"),
  location: text("location").$type<Location>().notNull(),
  /** The key in the storage; null until an upload is received, and after the object is removed. */
  objectKey: text("object_key").unique(),
  messageCount: integer("message_count").notNull().default(0),
  createdAt: integer("created_at").notNull(),
});

/** Stored objects that are removed once the transaction that queued them is on disk. */
export const storageRemovals = sqliteTable("storage_removals", {
  objectKey: text("object_key").primaryKey(),
  location: text("location").$type<Location>().notNull(),
  /** The earliest time of removal: until then a signed upload URL may still write to the object. */
  queuedAt: integer("queued_at").notNull(),
});

export type AttachmentRow = typeof attachments.$inferSelect;
export type StorageRemovalRow = typeof storageRemovals.$inferSelect;
