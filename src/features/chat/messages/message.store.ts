import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, filteredBy, inserter, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { type MessageRow, messages } from "./message.table.ts";

type HistoryQuery = {
  conversationId: string;
  /** The `seq` to start from, exclusive; null starts at the newest. */
  from: number | null;
  direction: "older" | "newer";
  senderId?: string;
  threadRootId?: string;
  includeDeleted: boolean;
  limit: number;
};

export function messageStore({ $client: client }: Db) {
  const columns = columnsOf(messages);
  const select = (rest: string) =>
    reading<MessageRow, (string | number | null)[]>(client, `SELECT ${columns} FROM messages ${rest}`);
  const byPublicId = select("WHERE public_id = ?");
  const byClientId = select(
    "WHERE conversation_id = ? AND ifnull(sender_id, '') = ? AND client_message_id = ? AND client_message_id IS NOT NULL",
  );
  const thread = select("WHERE thread_root_id = ? AND seq > ? AND (? OR deleted_at IS NULL) ORDER BY seq LIMIT ?");
  const pinned = select(
    "WHERE conversation_id = ?1 AND pinned_at IS NOT NULL AND (pinned_at, id) < (?2, ?3) ORDER BY pinned_at DESC, id DESC LIMIT ?4",
  );
  const lastSentAt = reading<{ at: number }, [string, string]>(
    client,
    "SELECT created_at AS at FROM messages WHERE conversation_id = ? AND sender_id = ? ORDER BY seq DESC LIMIT 1",
  );
  const firstFrom = reading<{ seq: number; createdAt: number }, [string, number]>(
    client,
    "SELECT seq, created_at AS createdAt FROM messages WHERE conversation_id = ? AND seq >= ? ORDER BY seq LIMIT 1",
  );
  const span = select(
    "WHERE conversation_id = ? AND seq >= ? AND seq < ? AND deleted_at IS NULL AND type <> 'event' ORDER BY seq LIMIT ?",
  );
  const edit = changing(
    client,
    `UPDATE messages SET text = ?2, metadata = ?3, mentions = ?4, edited_at = ?5, updated_at = ?6 WHERE id = ?1`,
  );
  const tombstone = changing(
    client,
    `UPDATE messages SET text = NULL, metadata = NULL, mentions = NULL, attachment = NULL, reaction_count = 0, pinned_at = NULL,
       deleted_at = ?2, deleted_by = ?3, updated_at = ?2 WHERE id = ?1`,
  );
  const removeSender = changing(client, "UPDATE messages SET sender_id = NULL, client_message_id = NULL WHERE id = ?");
  const countReplies = changing<[string, number], { replyCount: number }>(
    client,
    "UPDATE messages SET reply_count = reply_count + ?2 WHERE public_id = ?1 RETURNING reply_count AS replyCount",
  );
  const pin = changing(client, "UPDATE messages SET pinned_at = ?2, updated_at = ?3 WHERE id = ?1");
  const countReactions = changing(client, "UPDATE messages SET reaction_count = reaction_count + ?2 WHERE id = ?1");

  const older = filteredBy((conditions) =>
    select(`WHERE conversation_id = ? AND seq < ? ${conditions} ORDER BY seq DESC LIMIT ?`),
  );
  const newer = filteredBy((conditions) =>
    select(`WHERE conversation_id = ? AND seq > ? ${conditions} ORDER BY seq LIMIT ?`),
  );

  /** The `seq` of the first message sent at or after `at`, found by binary search, because `seq` grows with time. */
  function seqSince(conversationId: string, at: number, lastSeq: number): number {
    let low = 0;
    let high = lastSeq + 1;
    while (low < high) {
      const middle = Math.floor((low + high) / 2);
      const row = firstFrom.get(conversationId, middle);
      if (!row || row.createdAt >= at) high = middle;
      else low = row.seq + 1;
    }
    return low;
  }

  return {
    find: (publicId: string): MessageRow | null => byPublicId.get(publicId),
    findByClientId: (conversationId: string, senderId: string | null, clientMessageId: string): MessageRow | null =>
      byClientId.get(conversationId, senderId ?? "", clientMessageId),
    insert: inserter<MessageRow | Omit<MessageRow, "id">>(client, messages),
    /** Newest first towards older messages, oldest first towards newer ones. */
    history({
      conversationId,
      direction,
      senderId,
      threadRootId,
      includeDeleted,
      ...query
    }: HistoryQuery): MessageRow[] {
      const start = query.from ?? (direction === "older" ? Number.MAX_SAFE_INTEGER : 0);
      const { statement, values } = (direction === "older" ? older : newer)({
        "sender_id = ?": senderId,
        "thread_root_id = ?": threadRootId,
        "deleted_at IS NULL": !includeDeleted,
      });
      return statement.all(conversationId, start, ...values, query.limit);
    },
    /**
     * Messages in the range of time, including both ends, oldest first, without deleted ones and those of type event.
     */
    sentBetween(
      { id, lastSeq }: { id: string; lastSeq: number },
      from: number,
      to: number,
      { afterSeq, limit }: { afterSeq: number; limit: number },
    ): MessageRow[] {
      const first = Math.max(seqSince(id, from, lastSeq), afterSeq + 1);
      return span.all(id, first, seqSince(id, to + 1, lastSeq), limit);
    },
    replies: (rootId: string, afterSeq: number, includeDeleted: boolean, limit: number): MessageRow[] =>
      thread.all(rootId, afterSeq, includeDeleted ? 1 : 0, limit),
    pinned: (conversationId: string, before: { at: number; id: number }, limit: number): MessageRow[] =>
      pinned.all(conversationId, before.at, before.id, limit),
    lastSentAt: (conversationId: string, senderId: string): number | null =>
      lastSentAt.get(conversationId, senderId)?.at ?? null,
    edit: (unit: Unit, row: MessageRow) =>
      void edit.run(unit, row.id, row.text, row.metadata, row.mentions, row.editedAt, row.updatedAt),
    tombstone: (unit: Unit, id: number, at: number, by: string | null) => void tombstone.run(unit, id, at, by),
    removeSender: (unit: Unit, id: number) => void removeSender.run(unit, id),
    /** The new count of the thread; null when retention has removed its root. */
    countReplies: (unit: Unit, rootId: string, difference: number): number | null =>
      countReplies.get(unit, rootId, difference)?.replyCount ?? null,
    pin: (unit: Unit, id: number, pinnedAt: number | null, at: number) => void pin.run(unit, id, pinnedAt, at),
    countReactions: (unit: Unit, id: number, difference: number) => void countReactions.run(unit, id, difference),
  };
}
