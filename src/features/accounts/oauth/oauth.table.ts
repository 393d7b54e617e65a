import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { users } from "../user.table.ts";

/** Who a user is at a provider; its `subject` stays when the address there changes. */
export const oauthIdentities = sqliteTable(
  "oauth_identities",
  {
    provider: text("provider").notNull(),
    subject: text("subject").notNull(),
    userId: text("user_id")
      .notNull()
      .references(() => users.id),
    linkedAt: integer("linked_at").notNull(),
  },
  (table) => [primaryKey({ columns: [table.provider, table.subject] })],
);

/** A sign-in under way at a provider. */
export const oauthStates = sqliteTable("oauth_states", {
  digest: text("digest").primaryKey(),
  provider: text("provider").notNull(),
  codeVerifier: text("code_verifier").notNull(),
  nonce: text("nonce").notNull(),
  redirectUri: text("redirect_uri").notNull(),
  expiresAt: integer("expires_at").notNull(),
});

export type OAuthStateRow = typeof oauthStates.$inferSelect;
