import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, rowsOf } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";

/** A user's account at a provider. Its `subject` stays the same when the e-mail address at the provider changes. */
export const oauthIdentities = sqliteTable("oauth_identities", {
  provider: text("provider").notNull(),
  subject: text("subject").notNull(),
  userId: text("user_id").notNull(),
  linkedAt: integer("linked_at").notNull(),
});

/** A sign-in that waits for the provider's callback. */
export const oauthStates = sqliteTable("oauth_states", {
  digest: text("digest").primaryKey(),
  provider: text("provider").notNull(),
  codeVerifier: text("code_verifier").notNull(),
  nonce: text("nonce").notNull(),
  redirectUri: text("redirect_uri").notNull(),
  expiresAt: integer("expires_at").notNull(),
});

type OAuthStateRow = typeof oauthStates.$inferSelect;

export function oauthStore({ $client: client }: Db) {
  const take = changing<[string], OAuthStateRow>(
    client,
    `DELETE FROM oauth_states WHERE digest = ? RETURNING ${columnsOf(oauthStates)}`,
  );
  const expire = changing<[number]>(client, "DELETE FROM oauth_states WHERE expires_at <= ?");
  const identity = rowsOf(client, oauthIdentities)<[string, string]>("WHERE provider = ? AND subject = ?");
  return {
    insertState: inserter<OAuthStateRow>(client, oauthStates),
    /** Reads and deletes the state: it is valid for one exchange, even if that fails. */
    takeState: (unit: Unit, digest: string) => take.get(unit, digest),
    deleteExpiredStates: (unit: Unit, at: number) => void expire.run(unit, at),
    findUserId: (provider: string, subject: string) => identity.get(provider, subject)?.userId,
    insertIdentity: inserter<typeof oauthIdentities.$inferSelect>(client, oauthIdentities),
  };
}
