import { and, eq, lte } from "drizzle-orm";
import type { Db } from "../kernel/db/open.ts";
import type { Unit } from "../kernel/db/writer.ts";
import { type OneTimePurpose, type OneTimeTokenRow, oneTimeTokens } from "./one-time-token.table.ts";

export function oneTimeTokenStore(db: Db) {
  return {
    find: (digest: string): OneTimeTokenRow | undefined =>
      db.select().from(oneTimeTokens).where(eq(oneTimeTokens.digest, digest)).get(),
    insert: (_unit: Unit, row: OneTimeTokenRow) => void db.insert(oneTimeTokens).values(row).run(),
    deleteOf: (_unit: Unit, userId: string, purpose: OneTimePurpose) =>
      void db
        .delete(oneTimeTokens)
        .where(and(eq(oneTimeTokens.userId, userId), eq(oneTimeTokens.purpose, purpose)))
        .run(),
    deleteExpired: (_unit: Unit, at: number) =>
      void db.delete(oneTimeTokens).where(lte(oneTimeTokens.expiresAt, at)).run(),
  };
}
