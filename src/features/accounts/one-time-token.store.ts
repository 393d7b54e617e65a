import { and, eq, lte } from "drizzle-orm";
import type { Db } from "../../kernel/db/open.ts";
import { run } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { type OneTimePurpose, type OneTimeTokenRow, oneTimeTokens } from "./one-time-token.table.ts";

export function oneTimeTokenStore(db: Db) {
  return {
    find: (digest: string): OneTimeTokenRow | undefined =>
      db.select().from(oneTimeTokens).where(eq(oneTimeTokens.digest, digest)).get(),
    insert: (unit: Unit, row: OneTimeTokenRow) => void run(unit, db.insert(oneTimeTokens).values(row)),
    deleteOf: (unit: Unit, userId: string, purpose: OneTimePurpose) =>
      void run(
        unit,
        db.delete(oneTimeTokens).where(and(eq(oneTimeTokens.userId, userId), eq(oneTimeTokens.purpose, purpose))),
      ),
    deleteExpired: (unit: Unit, at: number) =>
      void run(unit, db.delete(oneTimeTokens).where(lte(oneTimeTokens.expiresAt, at))),
  };
}
