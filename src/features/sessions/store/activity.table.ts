import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Environment } from "../../../protocol/enums.ts";
import { projects } from "../../projects/store/project.table.ts";

export const activityMinutes = sqliteTable(
  "activity_minutes",
  {
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    environment: text("environment").$type<Environment>().notNull(),
    at: integer("at").notNull(),
    messages: integer("messages").notNull(),
    deliveries: integer("deliveries").notNull(),
    failedDeliveries: integer("failed_deliveries").notNull(),
  },
  (table) => [primaryKey({ columns: [table.projectId, table.environment, table.at] })],
);

export type ActivityRow = typeof activityMinutes.$inferSelect;
