import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { ActivityRow } from "./activity.table.ts";

export type ActivityCounts = Omit<ActivityRow, keyof Tenant>;

/** Messages and webhook deliveries by minute. */
export function activityStore({ $client: client }: Db) {
  const add = changing(() =>
    client.prepare<null, [string, string, number, number, number, number]>(
      `INSERT INTO activity_minutes VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (project_id, environment, at)
       DO UPDATE SET messages = messages + excluded.messages, deliveries = deliveries + excluded.deliveries,
         failed_deliveries = failed_deliveries + excluded.failed_deliveries`,
    ),
  );
  const since = reading(() =>
    client.prepare<ActivityCounts, [string, string, number]>(
      `SELECT at, messages, deliveries, failed_deliveries AS failedDeliveries FROM activity_minutes
       WHERE project_id = ? AND environment = ? AND at >= ?`,
    ),
  );
  const forget = changing(() => client.prepare<null, [number]>("DELETE FROM activity_minutes WHERE at < ?"));

  return {
    /** To what was counted for that minute before. */
    add(unit: Unit, { projectId, environment, at, messages, deliveries, failedDeliveries }: ActivityRow): void {
      add.run(unit, projectId, environment, at, messages, deliveries, failedDeliveries);
    },
    since: ({ projectId, environment }: Tenant, from: number): ActivityCounts[] =>
      since.all(projectId, environment, from),
    forget: (unit: Unit, before: number) => void forget.run(unit, before),
  };
}
