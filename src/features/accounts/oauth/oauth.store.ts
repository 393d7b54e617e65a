import { and, eq, lte, sql } from "drizzle-orm";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, run } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { type OAuthStateRow, oauthIdentities, oauthStates } from "./oauth.table.ts";

export function oauthStore(db: Db) {
  const take = changing(() =>
    db
      .delete(oauthStates)
      .where(eq(oauthStates.digest, sql.placeholder("digest")))
      .returning()
      .prepare(),
  );
  return {
    insertState: (unit: Unit, row: OAuthStateRow) => void run(unit, db.insert(oauthStates).values(row)),
    /** Reads and deletes in one: a state is good for one exchange, whether that succeeds or not. */
    takeState: (unit: Unit, digest: string): OAuthStateRow | undefined => take.get(unit, { digest }),
    deleteExpiredStates: (unit: Unit, at: number) =>
      void run(unit, db.delete(oauthStates).where(lte(oauthStates.expiresAt, at))),

    findUserId: (provider: string, subject: string): string | undefined =>
      db
        .select({ userId: oauthIdentities.userId })
        .from(oauthIdentities)
        .where(and(eq(oauthIdentities.provider, provider), eq(oauthIdentities.subject, subject)))
        .get()?.userId,
    link: (unit: Unit, provider: string, subject: string, userId: string, linkedAt: number) =>
      void run(unit, db.insert(oauthIdentities).values({ provider, subject, userId, linkedAt })),
  };
}
