import { integer, sqliteTable, text } from "drizzle-orm/sqlite-core";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, filteredBy, inserter, rowsOf, tenantColumns } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { ErrorCategory } from "../../../protocol/observability.ts";

export const classifiedErrors = sqliteTable("rtc_errors", {
  id: text("id").primaryKey(),
  ...tenantColumns,
  category: text("category").$type<ErrorCategory>().notNull(),
  code: text("code").notNull(),
  message: text("message").notNull(),
  connection: text("connection"),
  roomId: text("room_id"),
  occurredAt: integer("occurred_at").notNull(),
});

export type ClassifiedErrorRow = typeof classifiedErrors.$inferSelect;

/** The position at which a page ended, in a list sorted by time and id, newest first. */
type ErrorPosition = { occurredAt: number; id: string };

export type ErrorStore = ReturnType<typeof errorStore>;

export function errorStore({ $client: client }: Db) {
  const rows = rowsOf(client, classifiedErrors);
  const OF_TENANT = "WHERE project_id = ? AND environment = ?";
  const listed = filteredBy((conditions) =>
    rows<(string | number)[]>(
      `${OF_TENANT} ${conditions} AND (occurred_at, id) < (?, ?) ORDER BY occurred_at DESC, id DESC LIMIT ?`,
    ),
  );
  const byId = rows<[string, string, string]>(`${OF_TENANT} AND id = ?`);
  const ofConnection = rows<[string]>("WHERE connection = ? ORDER BY occurred_at");
  const prune = changing<[number, number]>(
    client,
    "DELETE FROM rtc_errors WHERE id IN (SELECT id FROM rtc_errors WHERE occurred_at < ? LIMIT ?)",
  );

  return {
    list(
      { projectId, environment }: Tenant,
      category: ErrorCategory | undefined,
      after: ErrorPosition,
      limit: number,
    ): ClassifiedErrorRow[] {
      const { statement, values } = listed({ "category = ?": category });
      return statement.all(projectId, environment, ...values, after.occurredAt, after.id, limit);
    },
    find: ({ projectId, environment }: Tenant, id: string): ClassifiedErrorRow | undefined =>
      byId.get(projectId, environment, id),
    ofConnection: (connection: string): ClassifiedErrorRow[] => ofConnection.all(connection),
    insert: inserter<ClassifiedErrorRow>(client, classifiedErrors),
    /** Removes at most `limit` errors that occurred before `before`; returns true when more rows may match. */
    prune: (unit: Unit, before: number, limit: number): boolean => prune.run(unit, before, limit).changes === limit,
  };
}
