import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const idempotencyKeys = sqliteTable("idempotency_keys", {
  /** Credential, method, path and key, hashed. */
  id: text("id").primaryKey(),
  bodyHash: text("body_hash").notNull(),
  status: integer("status").notNull(),
  body: text("body").notNull(),
  expiresAt: integer("expires_at").notNull(),
});
