import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../kernel/db/open.ts";
import { inserter, rowsOf, updater } from "../../kernel/db/statements.ts";

export const users = sqliteTable("users", {
  id: text("id").primaryKey(),
  email: text("email").notNull().unique(),
  name: text("name"),
  /** argon2id; null for an account that only signs in through a provider. */
  passwordHash: text("password_hash"),
  emailVerified: integer("email_verified", { mode: "boolean" }).notNull().default(false),
  isOperator: integer("is_operator", { mode: "boolean" }).notNull().default(false),
  createdAt: integer("created_at").notNull(),
});

export type UserRow = typeof users.$inferSelect;

export function userStore({ $client: client }: Db) {
  const select = rowsOf(client, users);
  const byId = select<[string]>("WHERE id = ?");
  const byEmail = select<[string]>("WHERE email = ?");
  const operator = select<[]>("WHERE is_operator = 1 ORDER BY id LIMIT 1");
  const any = select<[]>("LIMIT 1");

  return {
    find: (id: string) => byId.get(id),
    findByEmail: (normalizedEmail: string) => byEmail.get(normalizedEmail),
    findOperator: () => operator.get(),
    isEmpty: () => any.get() === undefined,
    insert: inserter<UserRow>(client, users),
    update: updater(client, users),
  };
}
