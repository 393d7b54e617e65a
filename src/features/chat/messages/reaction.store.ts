import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import { REACTION_USERS_SHOWN, type ReactionSummary } from "../../../protocol/chat-records.ts";

export function reactionStore({ $client: client }: Db) {
  const list = reading<{ emoji: string; userId: string }, [number]>(
    client,
    "SELECT emoji, user_id AS userId FROM message_reactions WHERE message_id = ? ORDER BY id",
  );
  const add = changing(
    client,
    "INSERT INTO message_reactions (message_id, emoji, user_id, created_at) VALUES (?, ?, ?, ?)",
  );
  const remove = changing(client, "DELETE FROM message_reactions WHERE message_id = ? AND emoji = ? AND user_id = ?");
  const clear = changing(client, "DELETE FROM message_reactions WHERE message_id = ?");
  const has = reading<{ one: number }, [number, string, string]>(
    client,
    "SELECT 1 AS one FROM message_reactions WHERE message_id = ? AND emoji = ? AND user_id = ?",
  );
  return {
    /** Sorted by the first use of each emoji. */
    summary(messageId: number): ReactionSummary[] {
      const byEmoji = new Map<string, ReactionSummary>();
      for (const { emoji, userId } of list.all(messageId)) {
        const summary = byEmoji.get(emoji) ?? { emoji, count: 0, userIds: [] };
        byEmoji.set(emoji, summary);
        summary.count += 1;
        if (summary.userIds.length < REACTION_USERS_SHOWN) summary.userIds.push(userId);
      }
      return [...byEmoji.values()];
    },
    has: (messageId: number, emoji: string, userId: string) => has.get(messageId, emoji, userId) !== null,
    add: (unit: Unit, messageId: number, emoji: string, userId: string, at: number) =>
      void add.run(unit, messageId, emoji, userId, at),
    remove: (unit: Unit, messageId: number, emoji: string, userId: string) =>
      remove.run(unit, messageId, emoji, userId).changes > 0,
    clear: (unit: Unit, messageId: number) => void clear.run(unit, messageId),
  };
}
