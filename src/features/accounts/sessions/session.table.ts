import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { users } from "../user.table.ts";

/** A signed-in browser. The row is deleted when the session ends, and every token of it stops with it. */
export const sessions = sqliteTable("sessions", {
  id: text("id").primaryKey(),
  userId: text("user_id")
    .notNull()
    .references(() => users.id),
  ipAddress: text("ip_address").notNull(),
  userAgent: text("user_agent"),
  createdAt: integer("created_at").notNull(),
  refreshedAt: integer("refreshed_at").notNull(),
  expiresAt: integer("expires_at").notNull(),
});

export const refreshTokens = sqliteTable("refresh_tokens", {
  digest: text("digest").primaryKey(),
  sessionId: text("session_id")
    .notNull()
    .references(() => sessions.id, { onDelete: "cascade" }),
  rotatedAt: integer("rotated_at"),
  /** Digest of the one that replaced it. */
  successor: text("successor"),
  /** When a client sent it; one that was only passed over in favour of its successor was never used. */
  usedAt: integer("used_at"),
});

export type SessionRow = typeof sessions.$inferSelect;
export type RefreshTokenRow = typeof refreshTokens.$inferSelect;
