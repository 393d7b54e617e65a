import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../kernel/db/open.ts";
import { changing, inserter, rowsOf } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";

export type OneTimePurpose = "verify-email" | "reset-password";

export const oneTimeTokens = sqliteTable("one_time_tokens", {
  digest: text("digest").primaryKey(),
  purpose: text("purpose").$type<OneTimePurpose>().notNull(),
  userId: text("user_id").notNull(),
  expiresAt: integer("expires_at").notNull(),
});

export function oneTimeTokenStore({ $client: client }: Db) {
  const byDigest = rowsOf(client, oneTimeTokens)<[string]>("WHERE digest = ?");
  const remove = changing<[string, OneTimePurpose]>(
    client,
    "DELETE FROM one_time_tokens WHERE user_id = ? AND purpose = ?",
  );
  const expire = changing<[number]>(client, "DELETE FROM one_time_tokens WHERE expires_at <= ?");

  return {
    find: (digest: string) => byDigest.get(digest),
    insert: inserter<typeof oneTimeTokens.$inferSelect>(client, oneTimeTokens),
    deleteOf: (unit: Unit, userId: string, purpose: OneTimePurpose) => void remove.run(unit, userId, purpose),
    deleteExpired: (unit: Unit, at: number) => void expire.run(unit, at),
  };
}
