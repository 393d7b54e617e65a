import { integer, primaryKey, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../kernel/db/open.ts";
import { reading } from "../../kernel/db/statements.ts";
import { projects } from "../projects/project.table.ts";

/** Only triggers of the database write to this table. */
export const storageUsage = sqliteTable(
  "storage_usage",
  {
    projectId: text("project_id")
      .notNull()
      .references(() => projects.id),
    /** The uploader; an empty string stands for the whole project. */
    userId: text("user_id").notNull(),
    bytes: integer("bytes").notNull(),
  },
  (table) => [primaryKey({ columns: [table.projectId, table.userId] })],
);

export function storageUsageStore({ $client: client }: Db) {
  const used = reading<{ bytes: number }, [string, string]>(
    client,
    "SELECT bytes FROM storage_usage WHERE project_id = ? AND user_id = ?",
  );
  return {
    ofProject: (projectId: string): number => used.get(projectId, "")?.bytes ?? 0,
    ofUser: (projectId: string, userId: string): number => used.get(projectId, userId)?.bytes ?? 0,
  };
}
