import { integer, sqliteTable } from "drizzle-orm/sqlite-core";
import type { Db } from "../../../kernel/db/open.ts";
import { changing, inserter, reading, tenantColumns } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";

export const activityMinutes = sqliteTable("activity_minutes", {
  ...tenantColumns,
  at: integer("at").notNull(),
  messages: integer("messages").notNull(),
  deliveries: integer("deliveries").notNull(),
  failedDeliveries: integer("failed_deliveries").notNull(),
});

export type ActivityRow = typeof activityMinutes.$inferSelect;
export type ActivityCounts = Omit<ActivityRow, keyof Tenant>;

export function activityStore({ $client: client }: Db) {
  const since = reading<ActivityCounts, [string, string, number]>(
    client,
    `SELECT at, messages, deliveries, failed_deliveries AS failedDeliveries FROM activity_minutes
       WHERE project_id = ? AND environment = ? AND at >= ?`,
  );
  const prune = changing<[number]>(client, "DELETE FROM activity_minutes WHERE at < ?");

  return {
    /** Adds to the counts of that minute. */
    add: inserter<ActivityRow>(
      client,
      activityMinutes,
      `ON CONFLICT (project_id, environment, at) DO UPDATE SET messages = messages + excluded.messages,
       deliveries = deliveries + excluded.deliveries,
       failed_deliveries = failed_deliveries + excluded.failed_deliveries`,
    ),
    since: ({ projectId, environment }: Tenant, from: number): ActivityCounts[] =>
      since.all(projectId, environment, from),
    prune: (unit: Unit, before: number) => void prune.run(unit, before),
  };
}
