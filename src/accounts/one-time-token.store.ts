import { and, eq, lte } from "drizzle-orm";
import type { Db } from "../kernel/db/open.ts";
import { type OneTimePurpose, type OneTimeTokenRow, oneTimeTokens } from "./one-time-token.table.ts";

export function oneTimeTokenStore(db: Db) {
  return {
    find: (digest: string): OneTimeTokenRow | undefined =>
      db.select().from(oneTimeTokens).where(eq(oneTimeTokens.digest, digest)).get(),
    insert: (row: OneTimeTokenRow) => void db.insert(oneTimeTokens).values(row).run(),
    deleteOf: (userId: string, purpose: OneTimePurpose) =>
      void db
        .delete(oneTimeTokens)
        .where(and(eq(oneTimeTokens.userId, userId), eq(oneTimeTokens.purpose, purpose)))
        .run(),
    deleteExpired: (at: number) => void db.delete(oneTimeTokens).where(lte(oneTimeTokens.expiresAt, at)).run(),
  };
}
