import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, filteredBy, inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import type { ReportAction, ReportStatus } from "../../../protocol/chat-records.ts";
import { messageReports, type ReportRow } from "./moderation.table.ts";

export function reportStore({ $client: client }: Db) {
  const select = (rest: string) =>
    reading<ReportRow, (string | number | null)[]>(
      client,
      `SELECT ${columnsOf(messageReports)} FROM message_reports ${rest}`,
    );
  const byPublicId = select("WHERE public_id = ? AND project_id = ? AND environment = ?");
  const byReporter = select("WHERE message_id = ? AND reporter_user_id = ?");
  const listed = filteredBy((conditions) =>
    select(`WHERE project_id = ? AND environment = ? ${conditions} AND id < ? ORDER BY id DESC LIMIT ?`),
  );
  const resolve = changing(
    client,
    `UPDATE message_reports SET status = 'RESOLVED', action = ?2, resolved_at = ?3
       WHERE message_id = ?1 AND status = 'OPEN'`,
  );
  const prune = changing(
    client,
    `DELETE FROM message_reports WHERE id IN
       (SELECT id FROM message_reports WHERE resolved_at IS NOT NULL AND resolved_at < ? LIMIT ?)`,
  );
  return {
    find: ({ projectId, environment }: Tenant, publicId: string): ReportRow | null =>
      byPublicId.get(publicId, projectId, environment),
    findByReporter: (messageId: string, reporterUserId: string): ReportRow | null =>
      byReporter.get(messageId, reporterUserId),
    insert: inserter<ReportRow>(client, messageReports),
    /** Newest first. */
    list({ projectId, environment }: Tenant, status: ReportStatus | undefined, before: string, limit: number) {
      const { statement, values } = listed({ "status = ?": status });
      return statement.all(projectId, environment, ...values, before, limit);
    },
    resolve: (unit: Unit, messageId: string, action: ReportAction, at: number) =>
      void resolve.run(unit, messageId, action, at),
    /** True when there may be more. */
    prune: (unit: Unit, before: number, limit: number): boolean => prune.run(unit, before, limit).changes >= limit,
  };
}
