import type { Db } from "../../kernel/db/open.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import { REACTION_USERS_SHOWN, type ReactionSummary } from "../../protocol/chat-records.ts";

export function reactionStore({ $client: client }: Db) {
  const list = client.prepare<{ emoji: string; userId: string }, [number]>(
    "SELECT emoji, user_id AS userId FROM message_reactions WHERE message_id = ? ORDER BY id",
  );
  const add = client.prepare(
    "INSERT INTO message_reactions (message_id, emoji, user_id, created_at) VALUES (?, ?, ?, ?)",
  );
  const remove = client.prepare("DELETE FROM message_reactions WHERE message_id = ? AND emoji = ? AND user_id = ?");
  const clear = client.prepare("DELETE FROM message_reactions WHERE message_id = ?");
  const has = client.prepare<{ one: number }, [number, string, string]>(
    "SELECT 1 AS one FROM message_reactions WHERE message_id = ? AND emoji = ? AND user_id = ?",
  );
  return {
    /** In the order in which each emoji was first used. */
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
    add: (_unit: Unit, messageId: number, emoji: string, userId: string, at: number) =>
      void add.run(messageId, emoji, userId, at),
    remove: (_unit: Unit, messageId: number, emoji: string, userId: string) =>
      remove.run(messageId, emoji, userId).changes > 0,
    clear: (_unit: Unit, messageId: number) => void clear.run(messageId),
  };
}

export type ReactionStore = ReturnType<typeof reactionStore>;
