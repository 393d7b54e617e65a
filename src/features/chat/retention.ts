import type { Db } from "../../kernel/db/open.ts";
import { changing, reading } from "../../kernel/db/statements.ts";
import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Tenant } from "../../kernel/tenant.ts";
import { DAY_MS } from "../../kernel/time/clock.ts";
import type { MessageRow } from "./messages/message.table.ts";
import { attachmentIdOf } from "./present.ts";
import type { SearchService } from "./search/search.service.ts";

type RetainedConversation = Tenant & { id: string; publicId: string; retentionDays: number };
type AgingMessage = Pick<
  MessageRow,
  "id" | "publicId" | "seq" | "ordinal" | "attachment" | "reactionCount" | "createdAt" | "deletedAt"
>;
type AgingEvent = { seq: number; at: number };

/** Messages per unit of work: a send waits for at most one unit, which lasts a few milliseconds. */
const BATCH = 50;
const CONVERSATIONS_PER_PAGE = 100;
/** The pause between units leaves most of the time to others, even during a purge of millions. */
const PAUSE_MS = 5;
/** A run is short, so that a stopping server never waits long for it; the next run continues. */
const UNITS_PER_RUN = 200;

/** Removes messages and events that are older than the retention of their conversation, or of the server. */
export function retentionService({ bus, config, db, now, write }: Runtime, search: SearchService) {
  const store = retentionStore(db);
  /** The conversation at which the last run ended, so that every conversation gets its share. */
  let position = "";

  const cutoffOf = ({ retentionDays }: RetainedConversation) => now() - retentionDays * DAY_MS;

  function isDue(conversation: RetainedConversation): boolean {
    const cutoff = cutoffOf(conversation);
    const [message] = store.oldestMessages(conversation.id, 1);
    const [event] = store.oldestEvents(conversation.id, 1);
    return (message !== undefined && message.createdAt < cutoff) || (event !== undefined && event.at < cutoff);
  }

  /** Removes the content of a message from the index, from queued webhooks and from storage. */
  function forget(unit: Unit, { publicId, projectId, environment }: RetainedConversation, message: AgingMessage): void {
    search.forget(unit, message.id);
    if (message.deletedAt !== null) return;
    bus.publish(unit, "messageDeleted", {
      messageId: message.publicId,
      conversationId: publicId,
      projectId,
      environment,
      attachmentId: attachmentIdOf(message),
    });
  }

  /** Removes one batch of messages and events, and returns the number of messages. */
  function removeOldest(unit: Unit, conversation: RetainedConversation): number {
    const cutoff = cutoffOf(conversation);
    const messages = takeWhile(store.oldestMessages(conversation.id, BATCH), ({ createdAt }) => createdAt < cutoff);
    for (const message of messages) forget(unit, conversation, message);
    store.removeMessages(unit, conversation.id, messages);
    const events = takeWhile(store.oldestEvents(conversation.id, BATCH * 4), ({ at }) => at < cutoff);
    const lastEvent = events.at(-1);
    if (lastEvent) store.removeEvents(unit, conversation.id, lastEvent.seq);
    return messages.length;
  }

  return {
    async removeDue(): Promise<number> {
      let removed = 0;
      let units = 0;
      for (;;) {
        const page = store.conversations(position, config.CHAT_RETENTION_DAYS, CONVERSATIONS_PER_PAGE);
        for (const conversation of page) {
          while (isDue(conversation)) {
            if (units === UNITS_PER_RUN) return removed;
            removed += await write((unit) => removeOldest(unit, conversation));
            units += 1;
            await Bun.sleep(PAUSE_MS);
          }
          position = conversation.id;
        }
        if (page.length < CONVERSATIONS_PER_PAGE) break;
        await Bun.sleep(PAUSE_MS);
      }
      position = "";
      return removed;
    },
  };
}

/**
 * This is not a filter: rows are removed up to the last one, and a clock that was set back must not remove newer ones.
 */
function takeWhile<T>(items: T[], isDue: (item: T) => boolean): T[] {
  const end = items.findIndex((item) => !isDue(item));
  return end < 0 ? items : items.slice(0, end);
}

function retentionStore({ $client: client }: Db) {
  const conversations = (where: string) =>
    reading<RetainedConversation, [string, number, number]>(
      client,
      `SELECT id, public_id AS publicId, project_id AS projectId, environment,
         ifnull(retention_days, ?2) AS retentionDays
         FROM conversations WHERE ${where} id > ?1 ORDER BY id LIMIT ?3`,
    );
  const all = conversations("");
  // The partial index keeps this short: without a default retention, few conversations have one.
  const limited = conversations("retention_days IS NOT NULL AND");
  const messages = reading<AgingMessage, [string, number]>(
    client,
    `SELECT id, public_id AS publicId, seq, ordinal, attachment, reaction_count AS reactionCount,
       created_at AS createdAt, deleted_at AS deletedAt
       FROM messages WHERE conversation_id = ? ORDER BY seq LIMIT ?`,
  );
  const events = reading<AgingEvent, [string, number]>(
    client,
    "SELECT seq, at FROM conversation_events WHERE conversation_id = ? ORDER BY seq LIMIT ?",
  );
  const removeMessages = changing(client, "DELETE FROM messages WHERE conversation_id = ? AND seq <= ?");
  const removeMentions = changing(client, "DELETE FROM message_mentions WHERE conversation_id = ? AND ordinal <= ?");
  const removeEvents = changing(client, "DELETE FROM conversation_events WHERE conversation_id = ? AND seq <= ?");
  const uncountMessages = changing(
    client,
    `UPDATE conversations SET removed_ordinal = ?2, message_count = message_count - ?3,
       reaction_count = reaction_count - ?4 WHERE id = ?1`,
  );
  const setLogStart = changing(client, "UPDATE conversations SET log_start_seq = ?2 WHERE id = ?1");

  return {
    /** Conversations with a retention, by id. `defaultDays` 0 keeps messages for ever. */
    conversations: (afterId: string, defaultDays: number, limit: number): RetainedConversation[] =>
      (defaultDays > 0 ? all : limited).all(afterId, defaultDays, limit),
    oldestMessages: (conversationId: string, limit: number): AgingMessage[] => messages.all(conversationId, limit),
    oldestEvents: (conversationId: string, limit: number): AgingEvent[] => events.all(conversationId, limit),

    removeMessages(unit: Unit, conversationId: string, oldest: AgingMessage[]): void {
      const last = oldest.at(-1);
      if (!last) return;
      const undeleted = oldest.filter(({ deletedAt }) => deletedAt === null).length;
      const reactions = oldest.reduce((sum, { reactionCount }) => sum + reactionCount, 0);
      removeMessages.run(unit, conversationId, last.seq);
      removeMentions.run(unit, conversationId, last.ordinal);
      uncountMessages.run(unit, conversationId, last.ordinal, undeleted, reactions);
    },
    removeEvents(unit: Unit, conversationId: string, lastSeq: number): void {
      removeEvents.run(unit, conversationId, lastSeq);
      setLogStart.run(unit, conversationId, lastSeq);
    },
  };
}
