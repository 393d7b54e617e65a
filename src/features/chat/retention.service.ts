import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Attachment } from "../../protocol/chat-records.ts";
import type { SearchService } from "./search.service.ts";
import type { AgingMessage, RetainedConversation, RetentionStore } from "./store/retention.store.ts";

const DAY_MS = 24 * 3_600_000;
/** Messages per unit of work: a send waits for one unit at most, which takes a few milliseconds. */
const BATCH = 50;
const CONVERSATIONS_PER_LOOK = 100;
/** Between units, so that even a purge of millions leaves most of the time to others. */
const PAUSE_MS = 5;
/** What is left is for the next turn; so a stopping server never waits long for this one. */
const UNITS_PER_TURN = 200;

export type RetentionService = ReturnType<typeof retentionService>;

/** Removes messages and events that are older than their conversation, or the server, keeps them. */
export function retentionService(
  { bus, config, now, write }: Runtime,
  { store, search }: { store: RetentionStore; search: SearchService },
) {
  // Where the last turn ended: with many conversations each gets its turn.
  let position = "";

  const cutoffOf = ({ retentionDays }: RetainedConversation) => now() - retentionDays * DAY_MS;

  function isDue(conversation: RetainedConversation): boolean {
    const cutoff = cutoffOf(conversation);
    const [message] = store.oldestMessages(conversation.id, 1);
    const [event] = store.oldestEvents(conversation.id, 1);
    return (message !== undefined && message.createdAt < cutoff) || (event !== undefined && event.at < cutoff);
  }

  /** What held its content elsewhere lets go of it: the index, queued webhooks, the file. */
  function forget(unit: Unit, { publicId, projectId, environment }: RetainedConversation, message: AgingMessage): void {
    search.forget(unit, message.id);
    if (message.deletedAt !== null) return;
    const attachmentId = message.attachment === null ? null : (JSON.parse(message.attachment) as Attachment).id;
    bus.announce(unit, "messageDeleted", {
      messageId: message.publicId,
      conversationId: publicId,
      projectId,
      environment,
      attachmentId,
    });
  }

  /** The oldest messages and events that are due. Answers how many messages went. */
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
    /** Takes a turn; what it does not get to stays for the next. */
    async removeDue(): Promise<number> {
      let removed = 0;
      let units = 0;
      for (;;) {
        const page = store.conversations(position, config.CHAT_RETENTION_DAYS, CONVERSATIONS_PER_LOOK);
        for (const conversation of page) {
          while (isDue(conversation)) {
            if (units === UNITS_PER_TURN) return removed;
            removed += await write((unit) => removeOldest(unit, conversation));
            units += 1;
            await Bun.sleep(PAUSE_MS);
          }
          position = conversation.id;
        }
        if (page.length < CONVERSATIONS_PER_LOOK) break;
        await Bun.sleep(PAUSE_MS);
      }
      position = "";
      return removed;
    },
  };
}

function takeWhile<T>(items: T[], fits: (item: T) => boolean): T[] {
  const end = items.findIndex((item) => !fits(item));
  return end < 0 ? items : items.slice(0, end);
}
