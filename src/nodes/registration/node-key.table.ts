import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const rtcNodeKeys = sqliteTable("rtc_node_keys", {
  publicId: text("public_id").primaryKey(),
  name: text("name").notNull(),
  createdAt: integer("created_at").notNull(),
  /** Null until the node has used the key for the first time. */
  lastUsedAt: integer("last_used_at"),
  revokedAt: integer("revoked_at"),
});

export type NodeKeyRow = typeof rtcNodeKeys.$inferSelect;
