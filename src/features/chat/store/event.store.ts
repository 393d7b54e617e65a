import type { Db } from "../../../kernel/db/open.ts";
import { columnsOf, inserter, reading } from "../../../kernel/db/statements.ts";
import { conversationEvents, type EventRow } from "./message.table.ts";

export function eventStore({ $client: client }: Db) {
  const after = reading(() =>
    client.prepare<EventRow, [string, number, number]>(
      `SELECT ${columnsOf(conversationEvents)} FROM conversation_events
     WHERE conversation_id = ? AND seq > ? ORDER BY seq LIMIT ?`,
    ),
  );
  return {
    insert: inserter<EventRow>(client, conversationEvents),
    after: (conversationId: string, seq: number, limit: number): EventRow[] => after.all(conversationId, seq, limit),
  };
}

export type EventStore = ReturnType<typeof eventStore>;
