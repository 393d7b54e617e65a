import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

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
