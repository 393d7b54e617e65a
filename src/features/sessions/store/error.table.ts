import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Environment } from "../../../protocol/enums.ts";
import type { ErrorCategory } from "../../../protocol/observability.ts";
import { projects } from "../../projects/store/project.table.ts";
import { connections } from "./connection.table.ts";

export const classifiedErrors = sqliteTable("rtc_errors", {
  id: text("id").primaryKey(),
  projectId: text("project_id")
    .notNull()
    .references(() => projects.id),
  environment: text("environment").$type<Environment>().notNull(),
  category: text("category").$type<ErrorCategory>().notNull(),
  code: text("code").notNull(),
  message: text("message").notNull(),
  connection: text("connection").references(() => connections.id, { onDelete: "set null" }),
  roomId: text("room_id"),
  occurredAt: integer("occurred_at").notNull(),
});

export type ClassifiedErrorRow = typeof classifiedErrors.$inferSelect;
