import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { ChatMemberStatus } from "../../../protocol/chat-records.ts";
import { conversationMembers, type MemberRow } from "./conversation.table.ts";

export function memberStore({ $client: client }: Db) {
  const columns = columnsOf(conversationMembers);
  const find = reading<MemberRow, [string, string]>(
    client,
    `SELECT ${columns} FROM conversation_members WHERE conversation_id = ? AND user_id = ?`,
  );
  const name = reading<Pick<MemberRow, "name">, [string, string]>(
    client,
    "SELECT name FROM conversation_members WHERE conversation_id = ? AND user_id = ?",
  );
  const list = reading<MemberRow, (string | number)[]>(
    client,
    `SELECT ${columns} FROM conversation_members
     WHERE conversation_id = ?1 AND status = ?2 AND (joined_at, user_id) < (?3, ?4)
     ORDER BY joined_at DESC, user_id DESC LIMIT ?5`,
  );
  const remove = changing(client, "DELETE FROM conversation_members WHERE conversation_id = ? AND user_id = ?");
  return {
    find: (conversationId: string, userId: string): MemberRow | null => find.get(conversationId, userId),
    /** The name for people to read: the member's name, or its id where there is none. */
    nameOf: (conversationId: string, userId: string): string => name.get(conversationId, userId)?.name ?? userId,
    save: inserter<MemberRow>(
      client,
      conversationMembers,
      `ON CONFLICT (conversation_id, user_id) DO UPDATE SET role = excluded.role, status = excluded.status,
       muted_until = excluded.muted_until, name = excluded.name, metadata = excluded.metadata, joined_at = excluded.joined_at,
       left_at = excluded.left_at`,
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
