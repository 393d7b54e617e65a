import { and, desc, eq, gt, lt, lte, ne, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { type UserRow, users } from "../user.table.ts";
import { type RefreshTokenRow, refreshTokens, type SessionRow, sessions } from "./session.table.ts";

export function sessionStore(db: Db) {
  const withUser = reading(() =>
    db
      .select({ session: sessions, user: users })
      .from(sessions)
      .innerJoin(users, eq(users.id, sessions.userId))
      .where(and(eq(sessions.id, sql.placeholder("id")), gt(sessions.expiresAt, sql.placeholder("at"))))
      .prepare(),
  );
  const ofUser = reading(() =>
    db
      .select()
      .from(sessions)
      .where(
        and(
          eq(sessions.userId, sql.placeholder("userId")),
          gt(sessions.expiresAt, sql.placeholder("at")),
          lt(sessions.id, sql.placeholder("before")),
        ),
      )
      .orderBy(desc(sessions.id))
      .limit(sql.placeholder("limit"))
      .prepare(),
  );
  const byDigest = reading(() =>
    db
      .select()
      .from(refreshTokens)
      .where(eq(refreshTokens.digest, sql.placeholder("digest")))
      .prepare(),
  );
  const expire = changing(() =>
    db
      .delete(sessions)
      .where(lte(sessions.expiresAt, sql.placeholder("at")))
      .prepare(),
  );

  const prune = changing(() =>
    db
      .delete(refreshTokens)
      .where(
        sql`${refreshTokens.digest} IN (SELECT digest FROM refresh_tokens
        WHERE session_id = ${sql.placeholder("sessionId")} AND rotated_at IS NOT NULL
        ORDER BY rotated_at DESC LIMIT -1 OFFSET ${sql.placeholder("keep")})`,
      )
      .prepare(),
  );

  return {
    /** Not expired, together with its user. */
    find: (id: string, at: number): { session: SessionRow; user: UserRow } | undefined => withUser.get({ id, at }),
    /** Newest first; `before` is the last id of the page before (ids sort by time). */
    list: (userId: string, at: number, before: string, limit: number): SessionRow[] =>
      ofUser.all({ userId, at, before, limit }),
    insert: (unit: Unit, row: SessionRow) => void run(unit, db.insert(sessions).values(row)),
    extend: (unit: Unit, id: string, refreshedAt: number, expiresAt: number) =>
      void run(unit, db.update(sessions).set({ refreshedAt, expiresAt }).where(eq(sessions.id, id))),
    delete: (unit: Unit, id: string) => void run(unit, db.delete(sessions).where(eq(sessions.id, id))),
    deleteOfUser: (unit: Unit, userId: string, exceptId = "") =>
      void run(unit, db.delete(sessions).where(and(eq(sessions.userId, userId), ne(sessions.id, exceptId)))),
    deleteExpired: (unit: Unit, at: number) => void expire.run(unit, { at }),

    findRefreshToken: (digest: string): RefreshTokenRow | undefined => byDigest.get({ digest }),
    insertRefreshToken: (unit: Unit, row: RefreshTokenRow) => void run(unit, db.insert(refreshTokens).values(row)),
    markRotated: (unit: Unit, digest: string, rotatedAt: number, successor: string) =>
      void run(unit, db.update(refreshTokens).set({ rotatedAt, successor }).where(eq(refreshTokens.digest, digest))),
    markUsed: (unit: Unit, digest: string, usedAt: number) =>
      void run(unit, db.update(refreshTokens).set({ usedAt }).where(eq(refreshTokens.digest, digest))),
    /** Keeps the newest of those that were rotated; a thief's is noticed for as long as it is kept. */
    pruneRotated: (unit: Unit, sessionId: string, keep: number) => void prune.run(unit, { sessionId, keep }),
  };
}
