import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const idempotencyKeys = sqliteTable("idempotency_keys", {
  /** Hash of credential, method, path and key. */
  id: text("id").primaryKey(),
  bodyHash: text("body_hash").notNull(),
  status: integer("status").notNull(),
  body: text("body").notNull(),
  expiresAt: integer("expires_at").notNull(),
});
