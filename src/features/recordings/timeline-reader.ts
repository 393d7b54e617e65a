import type { Now } from "../../kernel/time/clock.ts";
import type { ChatService } from "../chat/chat.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingEventRow, RecordingRow } from "./recording.table.ts";

type Entry = { atMs: number; type: string; identity?: string; [more: string]: unknown };
/** Numbers of the last event and of the last message up to here: a timeline is made of two lists, read side by side. */
export type TimelinePosition = { event: number; message: number };
export type TimelineRow = { entry: Entry; position: TimelinePosition };

export const TIMELINE_START: TimelinePosition = { event: -1, message: 0 };

type Sources = { store: RecordingStore; said: ChatService["roomMessages"] };

/**
 * What happened, in order, with what was said in the room's conversation; its words only for who may read them. A part of
 * it at a time: of a call of hours it is tens of thousands of entries.
 */
export function timelineReader(now: Now, { store, said }: Sources) {
  return (row: RecordingRow, texts: boolean, after: TimelinePosition, limit: number): TimelineRow[] => {
    const { projectId, environment, roomId, startedAt, endedAt } = row;
    const events = store.events(row.id, after.event, limit);
    const stretch = { afterSeq: after.message, limit, characters: Number.POSITIVE_INFINITY };
    const messages = said({ projectId, environment }, roomId, startedAt, endedAt ?? now(), stretch);

    const rows: TimelineRow[] = [];
    let [nextEvent, nextMessage] = [0, 0];
    let position = after;
    while (rows.length < limit) {
      const event = events[nextEvent];
      const message = messages[nextMessage];
      if (event && (!message || event.atMs <= message.at - startedAt)) {
        nextEvent += 1;
        position = { ...position, event: event.seq };
        rows.push({ entry: entryOf(event), position });
      } else if (message) {
        const { seq, at, messageId, senderId, text } = message;
        nextMessage += 1;
        position = { ...position, message: seq };
        const words = texts && text !== null ? { text } : {};
        rows.push({ entry: { atMs: at - startedAt, type: "message", messageId, senderId, ...words }, position });
      } else break;
    }
    return rows;
  };
}

const entryOf = ({ atMs, type, identity, data }: RecordingEventRow): Entry => ({
  atMs,
  type,
  ...(identity === null ? {} : { identity }),
  ...data,
});
