import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { users } from "./user.table.ts";

export type OneTimePurpose = "verify-email" | "reset-password";

export const oneTimeTokens = sqliteTable("one_time_tokens", {
  digest: text("digest").primaryKey(),
  purpose: text("purpose").$type<OneTimePurpose>().notNull(),
  userId: text("user_id")
    .notNull()
    .references(() => users.id),
  expiresAt: integer("expires_at").notNull(),
});

export type OneTimeTokenRow = typeof oneTimeTokens.$inferSelect;
