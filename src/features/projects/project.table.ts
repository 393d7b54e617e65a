import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";

export const projects = sqliteTable("projects", {
  id: text("id").primaryKey(),
  name: text("name").notNull(),
  description: text("description"),
  status: text("status").$type<"ACTIVE" | "ARCHIVED">().notNull().default("ACTIVE"),
  allowedOrigins: text("allowed_origins", { mode: "json" }).$type<string[]>().notNull().default([]),
  allowLocalhostOrigins: integer("allow_localhost_origins", { mode: "boolean" }).notNull().default(true),
  createdAt: integer("created_at").notNull(),
  updatedAt: integer("updated_at").notNull(),
});

export type ProjectRow = typeof projects.$inferSelect;
