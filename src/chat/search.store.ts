import type { Db } from "../kernel/db/open.ts";
import { type MessageRow, messages } from "./message.table.ts";
import { columnsOf } from "./statements.ts";

export type SearchStore = ReturnType<typeof searchStore>;

/** The full-text index over messages; a row has the number of its message. */
export function searchStore({ $client: client }: Db) {
  const insert = client.prepare(
    "INSERT INTO message_search (rowid, scope, text) SELECT id, ?2, ?3 FROM messages WHERE public_id = ?1",
  );
  const remove = client.prepare(
    "DELETE FROM message_search WHERE rowid = (SELECT id FROM messages WHERE public_id = ?)",
  );
  // Rows come in the index's own order, newest first, so that a page costs no sort over all that matches.
  const find = client.prepare<MessageRow, [string, string, number, number]>(
    `SELECT ${columnsOf(messages, "m")} FROM message_search s JOIN messages m ON m.id = s.rowid
     WHERE message_search MATCH ?1 AND m.deleted_at IS NULL
       AND s.rowid <= (SELECT id FROM messages WHERE conversation_id = ?2 AND seq < ?3 ORDER BY seq DESC LIMIT 1)
     ORDER BY s.rowid DESC LIMIT ?4`,
  );
  return {
    insert: (messageId: string, scope: string, text: string) => void insert.run(messageId, scope, text),
    remove: (messageId: string) => void remove.run(messageId),
    /** Messages older than `beforeSeq` that match an FTS5 expression, newest first. */
    find: (match: string, conversationId: string, beforeSeq: number, limit: number): MessageRow[] =>
      find.all(match, conversationId, beforeSeq, limit),
  };
}
