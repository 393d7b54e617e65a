import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import { projects } from "../projects/project.table.ts";

/** Written by triggers of the database alone. */
export const storageUsage = sqliteTable(
  "storage_usage",
  {
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    /** The uploader; an empty text stands for the project as a whole. */
    userId: text("user_id").notNull(),
    bytes: integer("bytes").notNull(),
  },
  (table) => [primaryKey({ columns: [table.projectId, table.userId] })],
);
