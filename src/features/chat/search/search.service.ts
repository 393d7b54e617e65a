import type { Unit } from "../../../kernel/db/writer.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { runCooperatively } from "../../../kernel/scheduling/cooperative-task.ts";
import type { Attachment } from "../../../protocol/chat-records.ts";
import type { MessageRow } from "../messages/message.table.ts";
import type { PendingMessage, SearchStore } from "./search.store.ts";
import { type IndexEntry, indexEntry, indexEntryTask, matchExpression } from "./search-words.ts";

/** Messages per unit of work, which takes a millisecond or two: all sends wait for it. */
const BATCH = 200;
/** Short messages share a unit; a long one has a unit of its own. */
const WORDS_PER_BATCH = 4_096;
/** Longer texts are split into words cooperatively, before the unit that indexes them. */
const LONG_TEXT = 512;
/** One merge step for this many words keeps the number of index segments small. */
const WORDS_PER_MERGE = 512;
const PAUSE_MS = 2;
/** The delay of the index; a search updates the index first. */
const INDEX_AFTER_MS = 500;

export type SearchService = ReturnType<typeof searchService>;

/**
 * Every change marks its message as pending in its own transaction, and the index follows in batches. Indexing each
 * message with its send would cost more than the rest of the send.
 */
export function searchService({ bus, log, timers, write }: Runtime, store: SearchStore) {
  let cancelScheduled: (() => void) | null = null;
  let running: Promise<void> = Promise.resolve();
  let stopped = false;
  bus.inTransaction("chatEvent", (unit, { event, rowId }) => {
    if (rowId !== null) store.markRow(unit, rowId);
    else if (event.type === "message" || event.type === "message.updated") store.mark(unit, event.message.id);
    else if (event.type === "message.deleted") store.mark(unit, event.messageId);
  });
  bus.on("chatEvent", ({ event }) => {
    if (event.type.startsWith("message")) schedule();
  });

  /** A run that is still busy picks up new messages itself, so that runs never pile up. */
  function schedule(): void {
    if (cancelScheduled || stopped) return;
    cancelScheduled = timers.after(INDEX_AFTER_MS, () => {
      running = runScheduled();
    });
  }

  async function runScheduled(): Promise<void> {
    try {
      await catchUp();
      cancelScheduled = null;
      if (store.isPending()) schedule();
    } catch (err) {
      cancelScheduled = null;
      log.error({ err }, "search: index not updated");
    }
  }

  /** The index entry of the last long message, and the state of the message it was made from. */
  let prepared: { message: PendingMessage; entry: IndexEntry } | null = null;
  /**
   * The size is reduced while messages are long, because pending messages that do not fit into the unit of work are
   * read again.
   */
  let batchSize = BATCH;

  /** Null for a long message that must be prepared first. */
  function entryOf(message: PendingMessage): IndexEntry | null {
    if (!isLong(message)) return indexEntry(...textOf(message));
    if (prepared?.message.id !== message.id) return null;
    // A message that was edited meanwhile is indexed at once; otherwise endless edits would delay the index.
    return isSame(prepared.message, message) ? prepared.entry : indexEntry(...textOf(message));
  }

  /** `long` is a message that must be prepared before the next batch. */
  function indexBatch(unit: Unit): { more: boolean; long: PendingMessage | null; words: number } {
    const batch = store.pending(batchSize);
    const newest = store.newest();
    let words = 0;
    let done = 0;
    let long: PendingMessage | null = null;
    for (const message of batch) {
      const entry = entryOf(message);
      if (entry === null) long = message;
      if (entry === null || (words > 0 && (isLong(message) || words + entry.words > WORDS_PER_BATCH))) break;
      // Above the newest entry there is nothing to remove, and a lookup would cost as much as a removal.
      if (message.id <= newest) store.remove(unit, message.id);
      if (entry.words > 0) store.insert(unit, message.id, entry.text);
      words += entry.words;
      done++;
    }
    const last = batch[done - 1];
    if (last) store.settled(unit, last.id);
    const more = done < batch.length || batch.length === batchSize;
    batchSize = done < batch.length ? Math.min(BATCH, Math.max(2, 2 * done)) : Math.min(BATCH, 2 * batchSize);
    return { more, long, words };
  }

  async function step(): Promise<boolean> {
    const { more, long, words } = await write(indexBatch);
    let merges = Math.ceil(words / WORDS_PER_MERGE);
    while (!stopped && merges-- > 0 && (await write(store.merge)));
    if (long) prepared = { message: long, entry: await runCooperatively(indexEntryTask(...textOf(long))) };
    return more;
  }

  async function indexPending(): Promise<void> {
    while (!stopped && store.isPending() && (await step()));
  }

  let indexing: Promise<void> | null = null;
  /** All callers share one run of the indexer. */
  async function catchUp(): Promise<void> {
    // The current run may have read the pending messages before the caller's message was added.
    await indexing?.catch(() => {});
    indexing ??= indexPending().finally(() => {
      indexing = null;
    });
    await indexing;
  }

  // The last run of the server may have left pending messages.
  schedule();

  return {
    /** Until this resolves, a changed message may be found by its old text. */
    catchUp,

    /** Messages that are still pending are indexed after the next start. */
    async stop(): Promise<void> {
      stopped = true;
      cancelScheduled?.();
      await running;
    },

    /** Messages of a conversation that hold every word, newest first; `beforeSeq` continues a page. */
    find(conversationId: string, query: string, beforeSeq: number, limit: number): MessageRow[] {
      const match = matchExpression(conversationId, query);
      if (match === null) return [];
      return store.find(match, conversationId, beforeSeq, limit);
    },

    /** Deleted words leave the index only when its segments are merged. */
    async compact(): Promise<void> {
      await catchUp();
      await write(store.beginMerge);
      while (await write(store.merge)) await Bun.sleep(PAUSE_MS);
    },

    /** Removes the index entry of a message whose row is removed in the same unit of work. */
    forget: (unit: Unit, id: number) => store.remove(unit, id),
  };
}

/** The text and the name of an attached file; empty for a removed message. */
function textOf({ conversationId, text, attachment }: PendingMessage): [conversationId: string, text: string] {
  if (conversationId === null) return ["", ""];
  const filename = attachment === null ? "" : (JSON.parse(attachment) as Attachment).filename;
  return [conversationId, `${text ?? ""} ${filename}`];
}

const isLong = ({ text }: PendingMessage): boolean => (text?.length ?? 0) > LONG_TEXT;

const isSame = (one: PendingMessage, other: PendingMessage) =>
  one.text === other.text && one.attachment === other.attachment && one.conversationId === other.conversationId;
