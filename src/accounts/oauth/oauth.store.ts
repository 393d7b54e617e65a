import { and, eq, lte } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { type OAuthStateRow, oauthIdentities, oauthStates } from "./oauth.table.ts";

export function oauthStore(db: Db) {
  return {
    insertState: (_unit: Unit, row: OAuthStateRow) => void db.insert(oauthStates).values(row).run(),
    /** Reads and deletes in one: a state is good for one exchange, whether that succeeds or not. */
    takeState: (_unit: Unit, digest: string): OAuthStateRow | undefined =>
      db.delete(oauthStates).where(eq(oauthStates.digest, digest)).returning().get(),
    deleteExpiredStates: (_unit: Unit, at: number) =>
      void db.delete(oauthStates).where(lte(oauthStates.expiresAt, at)).run(),

    findUserId: (provider: string, subject: string): string | undefined =>
      db
        .select({ userId: oauthIdentities.userId })
        .from(oauthIdentities)
        .where(and(eq(oauthIdentities.provider, provider), eq(oauthIdentities.subject, subject)))
        .get()?.userId,
    link: (_unit: Unit, provider: string, subject: string, userId: string, linkedAt: number) =>
      void db.insert(oauthIdentities).values({ provider, subject, userId, linkedAt }).run(),
  };
}
