import type { Db } from "../../../kernel/db/open.ts";
import { changing } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";

export type MentionStore = ReturnType<typeof mentionStore>;

/** Who is mentioned in which message, for counting. The message itself shows the same names. */
export function mentionStore({ $client: client }: Db) {
  const insert = changing(() => client.prepare("INSERT INTO message_mentions VALUES (?, ?, ?)"));
  const remove = changing(() =>
    client.prepare("DELETE FROM message_mentions WHERE conversation_id = ? AND ordinal = ?"),
  );
  return {
    insert: (unit: Unit, conversationId: string, userId: string, ordinal: number) =>
      void insert.run(unit, conversationId, userId, ordinal),
    /** Of one message. */
    remove: (unit: Unit, conversationId: string, ordinal: number) => void remove.run(unit, conversationId, ordinal),
  };
}
