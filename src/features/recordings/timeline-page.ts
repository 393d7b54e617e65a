import { longPage, type PageRequest, pageQueryUpTo } from "../../kernel/http/serving/pages.ts";
import type { Now } from "../../kernel/time/clock.ts";
import type { ChatService } from "../chat/chat.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingEventRow, RecordingRow } from "./recording.table.ts";

const MAX_ENTRIES = 1_000;
const MAX_BYTES = 2 * 1024 * 1024;
export const timelineQuery = pageQueryUpTo(MAX_ENTRIES);
export const TIMELINE_PAGE = "At most 1,000 entries and 2 MiB; `link` leads to the rest.";

type Entry = { atMs: number; type: string; identity?: string; [more: string]: unknown };
/** The `seq` of the last event and of the last message, because a timeline merges two lists. */
type Position = { event: number; message: number };
type PositionedEntry = { entry: Entry; position: Position };

const START: Position = { event: -1, message: 0 };

/**
 * Reads the events of a recording and the messages of its room's conversation, in order. A long call has tens of
 * thousands of entries, so they are read page by page. Texts of messages are only returned to callers who may read
 * them.
 */
export function timelineReader(now: Now, store: RecordingStore, roomMessages: ChatService["roomMessages"]) {
  return (row: RecordingRow, texts: boolean, after: Position, limit: number): PositionedEntry[] => {
    const { projectId, environment, roomId, startedAt, endedAt } = row;
    const events = store.events(row.id, after.event, limit);
    const part = { afterSeq: after.message, limit, characters: Number.POSITIVE_INFINITY };
    const messages = roomMessages({ projectId, environment }, roomId, startedAt, endedAt ?? now(), part);

    const entries: PositionedEntry[] = [];
    let [nextEvent, nextMessage] = [0, 0];
    let position = after;
    while (entries.length < limit) {
      const event = events[nextEvent];
      const message = messages[nextMessage];
      if (event && (!message || event.atMs <= message.at - startedAt)) {
        nextEvent += 1;
        position = { ...position, event: event.seq };
        entries.push({ entry: entryOf(event), position });
      } else if (message) {
        const { seq, at, messageId, senderId, text } = message;
        nextMessage += 1;
        position = { ...position, message: seq };
        const content = texts && text !== null ? { text } : {};
        entries.push({ entry: { atMs: at - startedAt, type: "message", messageId, senderId, ...content }, position });
      } else break;
    }
    return entries;
  };
}

const entryOf = ({ atMs, type, identity, data }: RecordingEventRow): Entry => ({
  atMs,
  type,
  ...(identity === null ? {} : { identity }),
  ...data,
});

export const timelinePage = (
  readTimeline: ReturnType<typeof timelineReader>,
  context: Parameters<typeof longPage>[0] & { query: PageRequest },
  row: RecordingRow,
  { texts }: { texts: boolean },
) =>
  longPage<[number, number], PositionedEntry, Entry>(context, context.query, {
    name: "timeline",
    start: [START.event, START.message],
    read: ([event, message], limit) => readTimeline(row, texts, { event, message }, limit),
    position: ({ position }) => [position.event, position.message],
    show: ({ entry }) => entry,
    defaultLimit: MAX_ENTRIES,
    maxBytes: MAX_BYTES,
  });
