import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Environment } from "../../../protocol/enums.ts";
import { projects } from "../project.table.ts";

export const apiKeys = sqliteTable("api_keys", {
  id: text("id").primaryKey(),
  projectId: text("project_id")
    .notNull()
    .references(() => projects.id),
  publicId: text("public_id").notNull().unique(),
  /** HMAC of the secret half; the secret itself is shown once and never kept. */
  secretDigest: text("secret_digest").notNull(),
  name: text("name").notNull(),
  environment: text("environment").$type<Environment>().notNull(),
  lastUsedAt: integer("last_used_at"),
  createdAt: integer("created_at").notNull(),
  revokedAt: integer("revoked_at"),
});

export type ApiKeyRow = typeof apiKeys.$inferSelect;
