import type { Unit } from "../kernel/db/writer.ts";
import type { Attachment } from "../protocol/chat-records.ts";
import type { Runtime } from "../runtime.ts";
import { indexed, matchOf } from "./search.words.ts";
import type { MessageRow } from "./store/message.table.ts";
import type { PendingMessage, SearchStore } from "./store/search.store.ts";

/** Per unit of work, which takes a few milliseconds: everybody's sends wait for it. */
const BATCH = 200;
const WORDS_PER_BATCH = 4_096;
const PAUSE_MS = 2;
/** The index follows at its leisure; a search does not wait for it, but catches up first. */
const FOLLOW_AFTER_MS = 500;

export type SearchService = ReturnType<typeof searchService>;

/**
 * Every change marks its message in its own transaction, and the index follows in batches: entered one by one, with
 * each send, the index would cost more than all the rest of the send.
 */
export function searchService({ bus, log, timers, write }: Runtime, store: SearchStore) {
  let following: { cancel: () => void } | null = null;
  let running: Promise<void> = Promise.resolve();
  let stopped = false;
  bus.within("chatEvent", (unit, { event, rowId }) => {
    if (rowId !== null) store.markRow(unit, rowId);
    else if (event.type === "message" || event.type === "message.updated") store.mark(unit, event.message.id);
    else if (event.type === "message.deleted") store.mark(unit, event.messageId);
  });
  bus.on("chatEvent", ({ event }) => {
    if (event.type.startsWith("message")) follow();
  });

  function follow(): void {
    if (following || stopped) return;
    const cancel = timers.after(FOLLOW_AFTER_MS, () => {
      following = null;
      running = catchUp().catch((err) =>
        log.error({ err }, "search index not updated; new messages are indexed at its next turn"),
      );
    });
    following = { cancel };
  }

  /** True when there may be more. */
  function indexBatch(unit: Unit): boolean {
    const batch = store.pending(BATCH);
    const newest = store.newest();
    let last: PendingMessage | undefined;
    let indexedWords = 0;
    for (const message of batch) {
      if (indexedWords >= WORDS_PER_BATCH) break;
      // Above that there is no entry, and to look for one costs as much as to find it.
      if (message.id <= newest) store.remove(unit, message.id);
      const { text, words } = wordsOf(message);
      if (words > 0) store.insert(unit, message.id, text);
      indexedWords += words;
      last = message;
    }
    if (last) store.settled(unit, last.id);
    return batch.length === BATCH || last !== batch.at(-1);
  }

  async function catchUp(): Promise<void> {
    while (!stopped && store.pending(1).length > 0 && (await write(indexBatch)));
  }

  // What was pending when the last run ended.
  follow();

  return {
    /** Until this resolves, a message that was changed may be found by what it said before. */
    catchUp,

    /** What is still marked is indexed by the next run. */
    async stop(): Promise<void> {
      stopped = true;
      following?.cancel();
      await running;
    },

    /** Messages of a conversation that hold every word, newest first; `beforeSeq` goes on where a page ended. */
    find(conversationId: string, typed: string, beforeSeq: number | null, limit: number): MessageRow[] {
      const match = matchOf(conversationId, typed);
      if (match === null) return [];
      return store.find(match, conversationId, beforeSeq ?? Number.MAX_SAFE_INTEGER, limit);
    },

    /** Words that are deleted leave the index only when its parts are merged; small steps, so that nobody waits. */
    async compact(): Promise<void> {
      await catchUp();
      await write(store.beginMerge);
      while (await write(store.merge)) await Bun.sleep(PAUSE_MS);
    },

    /** Inside the unit that removes a message without a trace. */
    forget: (unit: Unit, id: number) => store.remove(unit, id),
  };
}

/** The text and the name of an attached file; of a deleted message nothing. */
function wordsOf({ conversationId, text, attachment }: PendingMessage): { text: string; words: number } {
  if (conversationId === null) return { text: "", words: 0 };
  const filename = attachment === null ? "" : (JSON.parse(attachment) as Attachment).filename;
  return indexed(conversationId, `${text ?? ""} ${filename}`);
}
