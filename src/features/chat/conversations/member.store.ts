import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { ChatMemberStatus } from "../../../protocol/chat-records.ts";
import { conversationMembers, type MemberRow } from "./conversation.table.ts";

export function memberStore({ $client: client }: Db) {
  const columns = columnsOf(conversationMembers);
  const find = reading(() =>
    client.prepare<MemberRow, [string, string]>(
      `SELECT ${columns} FROM conversation_members WHERE conversation_id = ? AND user_id = ?`,
    ),
  );
  const list = reading(() =>
    client.prepare<MemberRow, (string | number)[]>(
      `SELECT ${columns} FROM conversation_members
     WHERE conversation_id = ?1 AND status = ?2 AND (joined_at, user_id) < (?3, ?4)
     ORDER BY joined_at DESC, user_id DESC LIMIT ?5`,
    ),
  );
  const save = changing(() =>
    client.prepare(
      `UPDATE conversation_members SET role = ?3, status = ?4, muted_until = ?5, metadata = ?6, joined_at = ?7, left_at = ?8
     WHERE conversation_id = ?1 AND user_id = ?2`,
    ),
  );
  const remove = changing(() =>
    client.prepare("DELETE FROM conversation_members WHERE conversation_id = ? AND user_id = ?"),
  );
  return {
    find: (conversationId: string, userId: string): MemberRow | null => find.get(conversationId, userId),
    insert: inserter<MemberRow>(client, conversationMembers),
    save: (unit: Unit, row: MemberRow) =>
      void save.run(
        unit,
        row.conversationId,
        row.userId,
        row.role,
        row.status,
        row.mutedUntil,
        row.metadata,
        row.joinedAt,
        row.leftAt,
      ),
    remove: (unit: Unit, conversationId: string, userId: string) => void remove.run(unit, conversationId, userId),
    /** Newest first; `before` is the last position of the previous page. */
    list: (
      conversationId: string,
      status: ChatMemberStatus,
      before: { joinedAt: number; userId: string } | null,
      limit: number,
    ): MemberRow[] =>
      list.all(conversationId, status, before?.joinedAt ?? Number.MAX_SAFE_INTEGER, before?.userId ?? "", limit),
  };
}

export type MemberStore = ReturnType<typeof memberStore>;
