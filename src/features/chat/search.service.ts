import type { Unit } from "../../kernel/db/writer.ts";
import { inPieces } from "../../kernel/pieces.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { Attachment } from "../../protocol/chat-records.ts";
import { type Indexed, indexed, indexedInPieces, matchOf } from "./search.words.ts";
import type { MessageRow } from "./store/message.table.ts";
import type { PendingMessage, SearchStore } from "./store/search.store.ts";

/** Per unit of work, which takes a millisecond or two: everybody's sends wait for it. */
const BATCH = 200;
/** Of short messages; a long one is a unit by itself. */
const WORDS_PER_BATCH = 4_096;
/** Longer texts are looked at in pieces, before the unit that enters them. */
const LONG_TEXT = 512;
/** Each asks for one more step of merging: about what it takes to keep the parts of the index few. */
const WORDS_PER_MERGE = 512;
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

  /** One that has not caught up yet goes on with what comes: two would look twice, and after minutes there would be hundreds. */
  function follow(): void {
    if (following || stopped) return;
    const cancel = timers.after(FOLLOW_AFTER_MS, () => {
      running = followed();
    });
    following = { cancel };
  }

  async function followed(): Promise<void> {
    try {
      await catchUp();
      following = null;
      if (store.isPending()) follow();
    } catch (err) {
      following = null;
      log.error({ err }, "search index not updated; new messages are indexed at its next turn");
    }
  }

  /** What the last long message means for the index, and as what it was read. */
  let prepared: { message: PendingMessage; entry: Indexed } | null = null;
  /** Fewer while messages are long: all that are read and not entered are read again. */
  let batchSize = BATCH;

  /** Null for a long message that is to be looked at in pieces first. */
  function entryOf(message: PendingMessage): Indexed | null {
    if (!isLong(message)) return indexed(...toIndex(message));
    if (prepared?.message.id !== message.id) return null;
    // Edited meanwhile: at once, or whoever edits without end would hold up the index.
    return isSame(prepared.message, message) ? prepared.entry : indexed(...toIndex(message));
  }

  /** Whether there may be more, and which message is to be looked at before that. */
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
      // Above that there is no entry, and to look for one costs as much as to find it.
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
    let merges = words === 0 ? 0 : Math.ceil(words / WORDS_PER_MERGE);
    while (!stopped && merges-- > 0 && (await write(store.merge)));
    if (long) prepared = { message: long, entry: await inPieces(indexedInPieces(...toIndex(long))) };
    return more;
  }

  async function goThrough(): Promise<void> {
    while (!stopped && store.isPending() && (await step()));
  }

  let goingThrough: Promise<void> | null = null;
  /** However many wait for it, each message is looked at once. */
  async function catchUp(): Promise<void> {
    // The one that is under way may have read what is pending before the caller's own message was.
    await goingThrough?.catch(() => {});
    goingThrough ??= goThrough().finally(() => {
      goingThrough = null;
    });
    await goingThrough;
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
function toIndex({ conversationId, text, attachment }: PendingMessage): [conversationId: string, text: string] {
  if (conversationId === null) return ["", ""];
  const filename = attachment === null ? "" : (JSON.parse(attachment) as Attachment).filename;
  return [conversationId, `${text ?? ""} ${filename}`];
}

const isLong = ({ text }: PendingMessage): boolean => (text?.length ?? 0) > LONG_TEXT;

const isSame = (one: PendingMessage, other: PendingMessage) =>
  one.text === other.text && one.attachment === other.attachment && one.conversationId === other.conversationId;
