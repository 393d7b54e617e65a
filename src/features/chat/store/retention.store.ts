import type { Db } from "../../../kernel/db/open.ts";
import { changing, reading } from "../../../kernel/db/statements.ts";
import type { Unit } from "../../../kernel/db/writer.ts";
import type { Environment } from "../../../protocol/enums.ts";

export type RetainedConversation = {
  id: string;
  publicId: string;
  projectId: string;
  environment: Environment;
  retentionDays: number;
};

export type AgingMessage = {
  id: number;
  publicId: string;
  seq: number;
  ordinal: number;
  attachment: string | null;
  reactionCount: number;
  createdAt: number;
  deletedAt: number | null;
};

type AgingEvent = { seq: number; at: number };

export type RetentionStore = ReturnType<typeof retentionStore>;

export function retentionStore({ $client: client }: Db) {
  const conversations = (where: string) =>
    reading(() =>
      client.prepare<RetainedConversation, [string, number, number]>(
        `SELECT id, public_id AS publicId, project_id AS projectId, environment,
         ifnull(retention_days, ?2) AS retentionDays
       FROM conversations WHERE ${where} id > ?1 ORDER BY id LIMIT ?3`,
      ),
    );
  const all = conversations("");
  // By the partial index: where nothing is limited by default, few conversations are.
  const limited = conversations("retention_days IS NOT NULL AND");
  const messages = reading(() =>
    client.prepare<AgingMessage, [string, number]>(
      `SELECT id, public_id AS publicId, seq, ordinal, attachment, reaction_count AS reactionCount,
       created_at AS createdAt, deleted_at AS deletedAt
     FROM messages WHERE conversation_id = ? ORDER BY seq LIMIT ?`,
    ),
  );
  const events = reading(() =>
    client.prepare<AgingEvent, [string, number]>(
      "SELECT seq, at FROM conversation_events WHERE conversation_id = ? ORDER BY seq LIMIT ?",
    ),
  );
  const removeMessages = changing(() => client.prepare("DELETE FROM messages WHERE conversation_id = ? AND seq <= ?"));
  const removeMentions = changing(() =>
    client.prepare("DELETE FROM message_mentions WHERE conversation_id = ? AND ordinal <= ?"),
  );
  const removeEvents = changing(() =>
    client.prepare("DELETE FROM conversation_events WHERE conversation_id = ? AND seq <= ?"),
  );
  const forgetMessages = changing(() =>
    client.prepare(
      `UPDATE conversations SET removed_ordinal = ?2, message_count = message_count - ?3,
       reaction_count = reaction_count - ?4 WHERE id = ?1`,
    ),
  );
  const forgetEvents = changing(() => client.prepare("UPDATE conversations SET log_start_seq = ?2 WHERE id = ?1"));

  return {
    /** Conversations whose messages end some day, in order of id. `defaultDays` 0 keeps them. */
    conversations: (afterId: string, defaultDays: number, limit: number): RetainedConversation[] =>
      (defaultDays > 0 ? all : limited).all(afterId, defaultDays, limit),

    oldestMessages: (conversationId: string, limit: number): AgingMessage[] => messages.all(conversationId, limit),
    oldestEvents: (conversationId: string, limit: number): AgingEvent[] => events.all(conversationId, limit),

    /** The oldest of a conversation. Numbers go on from where they are: none is ever given out twice. */
    removeMessages(unit: Unit, conversationId: string, oldest: AgingMessage[]): void {
      const last = oldest.at(-1);
      if (!last) return;
      const standing = oldest.filter(({ deletedAt }) => deletedAt === null).length;
      const reactions = oldest.reduce((sum, { reactionCount }) => sum + reactionCount, 0);
      removeMessages.run(unit, conversationId, last.seq);
      removeMentions.run(unit, conversationId, last.ordinal);
      forgetMessages.run(unit, conversationId, last.ordinal, standing, reactions);
    },
    removeEvents(unit: Unit, conversationId: string, lastSeq: number): void {
      removeEvents.run(unit, conversationId, lastSeq);
      forgetEvents.run(unit, conversationId, lastSeq);
    },
  };
}
