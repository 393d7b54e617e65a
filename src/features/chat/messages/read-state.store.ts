import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Tenant } from "../../../kernel/tenant.ts";
import { type ReadStateRow, readStates } from "./message.table.ts";

export type ReceiptRow = { userId: string; joinedAt: number } & Partial<
  Pick<ReadStateRow, "lastReadMessageId" | "lastReadSeq" | "lastReadAt">
>;
export type UnreadCounts = { unreadCount: number; mentionCount: number };
type UnreadRow = UnreadCounts & { conversationId: string };

/**
 * The unread count is a subtraction whose cost does not grow with the history: the messages since the read position,
 * minus the user's own, minus the deleted ones of others. All three come from the end of an index.
 */
const UNREAD = `
  c.last_ordinal - max(c.removed_ordinal, ifnull(r.last_read_ordinal, 0))
  - (SELECT count(*) FROM messages m
     WHERE m.conversation_id = c.id AND m.sender_id = ?1 AND m.seq > ifnull(r.last_read_seq, 0))
  - (SELECT count(*) FROM messages m
     WHERE m.conversation_id = c.id AND m.deleted_at IS NOT NULL AND m.sender_id IS NOT ?1
       AND m.ordinal > ifnull(r.last_read_ordinal, 0)) AS unreadCount,
  (SELECT count(*) FROM message_mentions mm WHERE mm.conversation_id = c.id AND mm.user_id = ?1
     AND mm.ordinal > ifnull(r.last_read_ordinal, 0)) AS mentionCount`;

export function readStateStore({ $client: client }: Db) {
  const find = reading<ReadStateRow, [string, string]>(
    client,
    `SELECT ${columnsOf(readStates)} FROM read_states WHERE conversation_id = ? AND user_id = ?`,
  );
  const mark = changing(
    client,
    `INSERT INTO read_states VALUES (?, ?, ?, ?, ?, ?)
     ON CONFLICT (conversation_id, user_id) DO UPDATE SET
       last_read_message_id = excluded.last_read_message_id, last_read_seq = excluded.last_read_seq,
       last_read_ordinal = excluded.last_read_ordinal, last_read_at = excluded.last_read_at
     WHERE excluded.last_read_seq > last_read_seq`,
  );
  const unread = reading<UnreadCounts, [string, string]>(
    client,
    `SELECT ${UNREAD} FROM conversations c
     LEFT JOIN read_states r ON r.conversation_id = c.id AND r.user_id = ?1 WHERE c.id = ?2`,
  );
  // CROSS JOIN makes SQLite begin with the memberships of the user instead of all conversations of the project.
  const unreadOfUser = reading<UnreadRow, (string | number | null)[]>(
    client,
    `SELECT c.public_id AS conversationId, ${UNREAD}
     FROM conversation_members cm CROSS JOIN conversations c ON c.id = cm.conversation_id
     LEFT JOIN read_states r ON r.conversation_id = c.id AND r.user_id = ?1
     WHERE cm.user_id = ?1 AND cm.status = 'ACTIVE' AND c.project_id = ?2 AND c.environment = ?3
       AND (?4 IS NULL OR c.id IN (SELECT value FROM json_each(?4)))
     ORDER BY cm.conversation_id DESC`,
  );
  const receipts = reading<ReceiptRow, (string | number)[]>(
    client,
    `SELECT m.user_id AS userId, m.joined_at AS joinedAt, r.last_read_message_id AS lastReadMessageId,
       r.last_read_seq AS lastReadSeq, r.last_read_at AS lastReadAt
     FROM conversation_members m LEFT JOIN read_states r
       ON r.conversation_id = m.conversation_id AND r.user_id = m.user_id
     WHERE m.conversation_id = ?1 AND m.status = 'ACTIVE' AND (m.joined_at, m.user_id) < (?2, ?3)
     ORDER BY m.joined_at DESC, m.user_id DESC LIMIT ?4`,
  );
  return {
    find: (conversationId: string, userId: string): ReadStateRow | null => find.get(conversationId, userId),
    /** True when the position moved; it only moves forward. */
    mark: (unit: Unit, row: ReadStateRow): boolean =>
      mark.run(
        unit,
        row.conversationId,
        row.userId,
        row.lastReadMessageId,
        row.lastReadSeq,
        row.lastReadOrdinal,
        row.lastReadAt,
      ).changes > 0,
    unread: (conversationId: string, userId: string): UnreadCounts =>
      unread.get(userId, conversationId) ?? { unreadCount: 0, mentionCount: 0 },
    /** `within` contains the conversations to which the token is limited. */
    unreadOfUser: ({ projectId, environment }: Tenant, userId: string, within: string[] | null): UnreadRow[] =>
      unreadOfUser.all(userId, projectId, environment, within && JSON.stringify(within)),
    receipts: (conversationId: string, before: { joinedAt: number; userId: string }, limit: number): ReceiptRow[] =>
      receipts.all(conversationId, before.joinedAt, before.userId, limit),
  };
}
