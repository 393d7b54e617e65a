import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, inserter, rowsOf } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { Environment } from "../../../protocol/enums.ts";
import type { ErrorCategory } from "../../../protocol/observability.ts";

export const classifiedErrors = sqliteTable("rtc_errors", {
  id: text("id").primaryKey(),
  projectId: text("project_id").notNull(),
  environment: text("environment").$type<Environment>().notNull(),
  category: text("category").$type<ErrorCategory>().notNull(),
  code: text("code").notNull(),
  message: text("message").notNull(),
  connection: text("connection"),
  roomId: text("room_id"),
  occurredAt: integer("occurred_at").notNull(),
});

export type ClassifiedErrorRow = typeof classifiedErrors.$inferSelect;

type ErrorFilter = Tenant & { category?: ErrorCategory };
/** The position at which a page ended, in a list sorted by time and id, newest first. */
type ErrorPosition = { occurredAt: number; id: string };

export type ErrorStore = ReturnType<typeof errorStore>;

export function errorStore({ $client: client }: Db) {
  const rows = rowsOf(client, classifiedErrors);
  const OF_TENANT = "WHERE project_id = ? AND environment = ?";
  const list = (filter: string) =>
    rows<(string | number)[]>(
      `${OF_TENANT} ${filter} AND (occurred_at, id) < (?, ?) ORDER BY occurred_at DESC, id DESC LIMIT ?`,
    );
  const all = list("");
  const byCategory = list("AND category = ?");
  const byId = rows<[string, string, string]>(`${OF_TENANT} AND id = ?`);
  const ofConnection = rows<[string]>("WHERE connection = ? ORDER BY occurred_at");
  const insert = inserter<ClassifiedErrorRow>(client, classifiedErrors);
  const prune = changing<[number, number]>(
    client,
    "DELETE FROM rtc_errors WHERE id IN (SELECT id FROM rtc_errors WHERE occurred_at < ? LIMIT ?)",
  );

  return {
    list({ projectId, environment, category }: ErrorFilter, after: ErrorPosition, limit: number): ClassifiedErrorRow[] {
      const position = [after.occurredAt, after.id, limit] as const;
      if (category === undefined) return all.all(projectId, environment, ...position);
      return byCategory.all(projectId, environment, category, ...position);
    },
    find: ({ projectId, environment }: Tenant, id: string): ClassifiedErrorRow | undefined =>
      byId.get(projectId, environment, id),
    ofConnection: (connection: string): ClassifiedErrorRow[] => ofConnection.all(connection),
    insert: (unit: Unit, row: ClassifiedErrorRow) => void insert(unit, row),
    /** Removes at most `limit` errors that occurred before `before`; returns true when more rows may match. */
    prune: (unit: Unit, before: number, limit: number): boolean => prune.run(unit, before, limit).changes === limit,
  };
}
