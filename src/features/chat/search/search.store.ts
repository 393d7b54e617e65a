import type { Db } from "../../../kernel/db/open.ts";
import { changing, columnsOf, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { type MessageRow, messages } from "../messages/message.table.ts";

/** A message to be indexed; everything but its id is null once it was removed. */
export type PendingMessage = { id: number } & {
  [Field in "conversationId" | "text" | "attachment"]: MessageRow[Field] | null;
};

/** Index pages per merge step, which takes about a millisecond. */
const MERGED_PAGES = 8;

export type SearchStore = ReturnType<typeof searchStore>;

/** The full-text index over messages; the rowid of an entry is that of its message. */
export function searchStore({ $client: client }: Db) {
  const mark = changing(client, "INSERT OR IGNORE INTO search_pending SELECT id FROM messages WHERE public_id = ?");
  const markRow = changing(client, "INSERT OR IGNORE INTO search_pending VALUES (?)");
  const pending = reading<PendingMessage, [number]>(
    client,
    `SELECT p.message_id AS id, m.conversation_id AS conversationId, m.text AS text, m.attachment AS attachment
     FROM search_pending p LEFT JOIN messages m ON m.id = p.message_id ORDER BY p.message_id LIMIT ?`,
  );
  const isPending = reading(client, "SELECT 1 FROM search_pending LIMIT 1");
  const done = changing(client, "DELETE FROM search_pending WHERE message_id <= ?");
  const newest = reading<{ id: number | null }, []>(client, "SELECT max(id) AS id FROM message_search_docsize");
  const insert = changing(client, "INSERT INTO message_search (rowid, text) VALUES (?, ?)");
  const remove = changing(client, "DELETE FROM message_search WHERE rowid = ?");
  const merge = changing(client, "INSERT INTO message_search (message_search, rank) VALUES ('merge', ?)");
  const changes = reading<{ total: number }, []>(client, "SELECT total_changes() AS total");
  // The query uses the order of the index, so that a page needs no sort over all matches.
  const find = reading<MessageRow, [string, string, number, number]>(
    client,
    `SELECT ${columnsOf(messages, "m")} FROM message_search s JOIN messages m ON m.id = s.rowid
     WHERE message_search MATCH ?1 AND m.conversation_id = ?2 AND m.deleted_at IS NULL
       AND s.rowid <= (SELECT id FROM messages WHERE conversation_id = ?2 AND seq < ?3 ORDER BY seq DESC LIMIT 1)
     ORDER BY s.rowid DESC LIMIT ?4`,
  );
  return {
    /** Marks a new message as pending for the index. */
    markRow: (unit: Unit, id: number) => void markRow.run(unit, id),
    /** Marks a changed message as pending for the index. */
    mark: (unit: Unit, messageId: string) => void mark.run(unit, messageId),
    pending: (limit: number): PendingMessage[] => pending.all(limit),
    isPending: (): boolean => isPending.get() !== null,
    /** Removes the marks up to this message. */
    settled: (unit: Unit, id: number) => void done.run(unit, id),
    /** The highest rowid in the index; 0 when it is empty. */
    newest: (): number => newest.get()?.id ?? 0,
    insert: (unit: Unit, id: number, words: string) => void insert.run(unit, id, words),
    remove: (unit: Unit, id: number) => void remove.run(unit, id),
    /** Makes the following merge steps combine all segments into one. */
    beginMerge: (unit: Unit) => void merge.run(unit, -MERGED_PAGES),
    /** One merge step; false when there is nothing left to merge. */
    merge(unit: Unit): boolean {
      const before = changes.get()?.total ?? 0;
      merge.run(unit, MERGED_PAGES);
      // FTS5 counts one change for the command itself.
      return (changes.get()?.total ?? 0) - before >= 2;
    },
    /** Messages older than `beforeSeq` that match an FTS5 expression, newest first. */
    find: (match: string, conversationId: string, beforeSeq: number, limit: number): MessageRow[] =>
      find.all(match, conversationId, beforeSeq, limit),
  };
}
