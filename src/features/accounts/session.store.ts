import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../kernel/db/open.ts";
import { changing, inserter, rowsOf } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";

/** A signed-in browser. Deleting the row ends the session and invalidates all of its tokens. */
export const sessions = sqliteTable("sessions", {
  id: text("id").primaryKey(),
  userId: text("user_id").notNull(),
  ipAddress: text("ip_address").notNull(),
  userAgent: text("user_agent"),
  createdAt: integer("created_at").notNull(),
  refreshedAt: integer("refreshed_at").notNull(),
  /** When a second factor was presented in the session; null if none was. */
  verifiedAt: integer("verified_at"),
  expiresAt: integer("expires_at").notNull(),
});

export const refreshTokens = sqliteTable("refresh_tokens", {
  digest: text("digest").primaryKey(),
  sessionId: text("session_id").notNull(),
  rotatedAt: integer("rotated_at"),
  /** Digest of the token that replaced this one. */
  successor: text("successor"),
  /** When a client sent this token. Null when an older token was sent instead and both were rotated. */
  usedAt: integer("used_at"),
});

export type SessionRow = typeof sessions.$inferSelect;
export type RefreshTokenRow = typeof refreshTokens.$inferSelect;

export function sessionStore({ $client: client }: Db) {
  const select = rowsOf(client, sessions);
  const unexpired = select<[string, number]>("WHERE id = ? AND expires_at > ?");
  const newest = select<[string, number, string, number]>(
    "WHERE user_id = ? AND expires_at > ? AND id < ? ORDER BY id DESC LIMIT ?",
  );
  const refreshToken = rowsOf(client, refreshTokens)<[string]>("WHERE digest = ?");
  const extend = changing<[number, number, string]>(
    client,
    "UPDATE sessions SET refreshed_at = ?, expires_at = ? WHERE id = ?",
  );
  const remove = changing<[string]>(client, "DELETE FROM sessions WHERE id = ?");
  const removeAll = changing<[string, string]>(client, "DELETE FROM sessions WHERE user_id = ? AND id <> ?");
  const expire = changing<[number]>(client, "DELETE FROM sessions WHERE expires_at <= ?");
  const markRotated = changing<[number, string, string]>(
    client,
    "UPDATE refresh_tokens SET rotated_at = ?, successor = ? WHERE digest = ?",
  );
  const markUsed = changing<[number, string]>(client, "UPDATE refresh_tokens SET used_at = ? WHERE digest = ?");
  const prune = changing<[string, number]>(
    client,
    `DELETE FROM refresh_tokens WHERE digest IN (SELECT digest FROM refresh_tokens
       WHERE session_id = ? AND rotated_at IS NOT NULL ORDER BY rotated_at DESC LIMIT -1 OFFSET ?)`,
  );

  return {
    findUnexpired: (id: string, at: number) => unexpired.get(id, at),
    /** Newest first. `before` is the last id of the previous page; ids sort by time. */
    list: (userId: string, at: number, before: string, limit: number) => newest.all(userId, at, before, limit),
    insert: inserter<SessionRow>(client, sessions),
    extend: (unit: Unit, id: string, refreshedAt: number, expiresAt: number) =>
      void extend.run(unit, refreshedAt, expiresAt, id),
    delete: (unit: Unit, id: string) => void remove.run(unit, id),
    deleteOfUser: (unit: Unit, userId: string, exceptId = "") => void removeAll.run(unit, userId, exceptId),
    deleteExpired: (unit: Unit, at: number) => void expire.run(unit, at),

    findRefreshToken: (digest: string) => refreshToken.get(digest),
    insertRefreshToken: inserter<RefreshTokenRow>(client, refreshTokens),
    markRotated: (unit: Unit, digest: string, rotatedAt: number, successor: string) =>
      void markRotated.run(unit, rotatedAt, successor, digest),
    markUsed: (unit: Unit, digest: string, usedAt: number) => void markUsed.run(unit, usedAt, digest),
    /** Keeps the newest rotated tokens; reuse of a stolen token is detected while the token is kept. */
    pruneRotated: (unit: Unit, sessionId: string, keep: number) => void prune.run(unit, sessionId, keep),
  };
}
