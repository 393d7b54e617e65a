import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { type ChatConnectionRow, chatConnections } from "./connection.table.ts";

export function connectionStore({ $client: client }: Db) {
  const list = reading<ChatConnectionRow, (string | number)[]>(
    client,
    `SELECT ${columnsOf(chatConnections)} FROM chat_connections
     WHERE project_id = ? AND environment = ? AND id < ? ORDER BY id DESC LIMIT ?`,
  );
  const save = changing(
    client,
    `UPDATE chat_connections SET conversations = ?2, messages_sent = ?3, disconnected_at = ?4, close_code = ?5
     WHERE id = ?1`,
  );
  const abandon = changing(
    client,
    "UPDATE chat_connections SET disconnected_at = ?1, close_code = 1006 WHERE disconnected_at IS NULL",
  );
  const prune = changing(
    client,
    `DELETE FROM chat_connections WHERE id IN
       (SELECT id FROM chat_connections WHERE connected_at <= ?1 AND disconnected_at <= ?1 LIMIT ?2)`,
  );
  return {
    /** Newest first. */
    list: ({ projectId, environment }: Tenant, before: string, limit: number): ChatConnectionRow[] =>
      list.all(projectId, environment, before, limit),
    insert: inserter<ChatConnectionRow>(client, chatConnections),
    save: (unit: Unit, row: ChatConnectionRow) =>
      void save.run(unit, row.id, row.conversations, row.messagesSent, row.disconnectedAt, row.closeCode),
    /** Ends all open connections. */
    abandon: (unit: Unit, at: number) => void abandon.run(unit, at),
    prune: (unit: Unit, before: number, limit: number): number => prune.run(unit, before, limit).changes,
  };
}
