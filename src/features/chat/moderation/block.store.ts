import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { type BlockRow, chatBlocks } from "./moderation.table.ts";

export type BlockStore = ReturnType<typeof blockStore>;

export function blockStore({ $client: client }: Db) {
  const columns = columnsOf(chatBlocks);
  const find = reading(() =>
    client.prepare<BlockRow, [string, string, string, string]>(
      `SELECT ${columns} FROM chat_blocks
       WHERE project_id = ? AND environment = ? AND user_id = ? AND blocked_user_id = ?`,
    ),
  );
  const list = reading(() =>
    client.prepare<BlockRow, [string, string, string, string, number]>(
      `SELECT ${columns} FROM chat_blocks WHERE project_id = ? AND environment = ? AND user_id = ?
       AND blocked_user_id > ? ORDER BY blocked_user_id LIMIT ?`,
    ),
  );
  const count = reading(() =>
    client.prepare<{ count: number }, [string, string, string]>(
      "SELECT count(*) AS count FROM chat_blocks WHERE project_id = ? AND environment = ? AND user_id = ?",
    ),
  );
  const tenants = reading(() =>
    client.prepare<Tenant, []>("SELECT DISTINCT project_id AS projectId, environment FROM chat_blocks"),
  );
  const insert = changing(() => client.prepare("INSERT OR IGNORE INTO chat_blocks VALUES (?, ?, ?, ?, ?)"));
  const remove = changing(() =>
    client.prepare(
      "DELETE FROM chat_blocks WHERE project_id = ? AND environment = ? AND user_id = ? AND blocked_user_id = ?",
    ),
  );
  return {
    find: ({ projectId, environment }: Tenant, userId: string, blockedUserId: string): BlockRow | null =>
      find.get(projectId, environment, userId, blockedUserId),
    list: ({ projectId, environment }: Tenant, userId: string, after: string, limit: number): BlockRow[] =>
      list.all(projectId, environment, userId, after, limit),
    count: ({ projectId, environment }: Tenant, userId: string): number =>
      count.get(projectId, environment, userId)?.count ?? 0,
    /** Projects in which anybody has blocked somebody. */
    tenants: (): Tenant[] => tenants.all(),
    insert: (unit: Unit, row: BlockRow) =>
      void insert.run(unit, row.projectId, row.environment, row.userId, row.blockedUserId, row.createdAt),
    remove: (unit: Unit, { projectId, environment }: Tenant, userId: string, blockedUserId: string) =>
      void remove.run(unit, projectId, environment, userId, blockedUserId),
  };
}
