import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, inserter, reading, rowsOf } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";

const ofUser = () => text("user_id").notNull();

export const passkeys = sqliteTable("passkeys", {
  /** The credential's id, in base64url. */
  id: text("id").primaryKey(),
  userId: ofUser(),
  name: text("name").notNull(),
  publicKey: text("public_key").notNull(),
  counter: integer("counter").notNull(),
  transports: text("transports", { mode: "json" }).$type<string[]>().notNull(),
  createdAt: integer("created_at").notNull(),
  lastUsedAt: integer("last_used_at"),
});

export const totpSecrets = sqliteTable("totp_secrets", {
  userId: ofUser().primaryKey(),
  /**
   * The TOTP secret is derived from the salt and the master secret, so that a copy of the database cannot generate
   * codes.
   */
  salt: text("salt").notNull(),
  /** Null until the first code was entered. */
  confirmedAt: integer("confirmed_at"),
  /** The last accepted time step: no code is accepted twice. */
  lastStep: integer("last_step").notNull(),
});

export const recoveryCodes = sqliteTable("recovery_codes", {
  digest: text("digest").primaryKey(),
  userId: ofUser(),
});

export type ChallengePurpose = "add" | "verify" | "sign-in";

export const passkeyChallenges = sqliteTable("passkey_challenges", {
  digest: text("digest").primaryKey(),
  purpose: text("purpose").$type<ChallengePurpose>().notNull(),
  /** Null for a sign-in whose account is not known yet. */
  userId: text("user_id"),
  expiresAt: integer("expires_at").notNull(),
});

export type PasskeyRow = typeof passkeys.$inferSelect;
export type TotpRow = typeof totpSecrets.$inferSelect;

export function secondFactorStore({ $client: client }: Db) {
  const passkeyRows = rowsOf(client, passkeys);
  const passkey = passkeyRows<[string]>("WHERE id = ?");
  const passkeysOf = passkeyRows<[string]>("WHERE user_id = ? ORDER BY created_at, id");
  const used = changing<[number, number, string]>(
    client,
    "UPDATE passkeys SET counter = ?, last_used_at = ? WHERE id = ?",
  );
  const removePasskey = changing<[string]>(client, "DELETE FROM passkeys WHERE id = ?");
  const totp = rowsOf(client, totpSecrets)<[string]>("WHERE user_id = ?");
  const accept = changing<[number, number, string]>(
    client,
    "UPDATE totp_secrets SET confirmed_at = coalesce(confirmed_at, ?), last_step = ? WHERE user_id = ?",
  );
  const removeTotp = changing<[string]>(client, "DELETE FROM totp_secrets WHERE user_id = ?");
  const codes = reading<{ count: number }, [string]>(
    client,
    "SELECT count(*) AS count FROM recovery_codes WHERE user_id = ?",
  );
  const code = rowsOf(client, recoveryCodes)<[string]>("WHERE digest = ?");
  const removeCode = changing<[string]>(client, "DELETE FROM recovery_codes WHERE digest = ?");
  const removeCodes = changing<[string]>(client, "DELETE FROM recovery_codes WHERE user_id = ?");
  const challenge = rowsOf(client, passkeyChallenges)<[string]>("WHERE digest = ?");
  const removeChallenge = changing<[string]>(client, "DELETE FROM passkey_challenges WHERE digest = ?");
  const expire = changing<[number]>(client, "DELETE FROM passkey_challenges WHERE expires_at <= ?");
  const any = reading<{ has: number }, [string, string]>(
    client,
    `SELECT EXISTS (SELECT 1 FROM passkeys WHERE user_id = ?) OR
       EXISTS (SELECT 1 FROM totp_secrets WHERE user_id = ? AND confirmed_at IS NOT NULL) AS has`,
  );
  return {
    has: (userId: string): boolean => any.get(userId, userId)?.has === 1,
    passkey: (id: string) => passkey.get(id),
    passkeysOf: (userId: string): PasskeyRow[] => passkeysOf.all(userId),
    insertPasskey: inserter<PasskeyRow>(client, passkeys),
    markUsed: (unit: Unit, id: string, counter: number, at: number) => void used.run(unit, counter, at, id),
    removePasskey: (unit: Unit, id: string) => void removePasskey.run(unit, id),
    totp: (userId: string) => totp.get(userId),
    saveTotp: inserter<TotpRow>(
      client,
      totpSecrets,
      "ON CONFLICT (user_id) DO UPDATE SET salt = excluded.salt, confirmed_at = NULL, last_step = excluded.last_step",
    ),
    acceptTotp: (unit: Unit, userId: string, at: number, step: number) => void accept.run(unit, at, step, userId),
    removeTotp: (unit: Unit, userId: string) => void removeTotp.run(unit, userId),
    countCodes: (userId: string): number => codes.get(userId)?.count ?? 0,
    code: (digest: string) => code.get(digest),
    insertCode: inserter<typeof recoveryCodes.$inferSelect>(client, recoveryCodes),
    removeCode: (unit: Unit, digest: string) => void removeCode.run(unit, digest),
    removeCodes: (unit: Unit, userId: string) => void removeCodes.run(unit, userId),
    insertChallenge: inserter<typeof passkeyChallenges.$inferSelect>(client, passkeyChallenges),
    challenge: (digest: string) => challenge.get(digest),
    removeChallenge: (unit: Unit, digest: string) => void removeChallenge.run(unit, digest),
    expireChallenges: (unit: Unit, at: number) => void expire.run(unit, at),
  };
}
