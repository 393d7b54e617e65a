import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { MediaEvent } from "../../protocol/media-node.ts";
import type { RtcConnectionEvent } from "../sessions/events.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingEventRow } from "./recording.table.ts";

/** Speakers change at most four times a second; the limit is enough for several hours. */
const MAX_EVENTS = 50_000;
const FLUSH_MS = 1_000;

type Subject = { id: string; startedAt: number };
type Entry = { type: string; identity?: string; data?: Record<string, unknown> };

export type Timeline = ReturnType<typeof createTimeline>;

/** Records the events during a recording, named like the notifications to clients. */
export function createTimeline({ log, now, timers, write }: Runtime, store: RecordingStore) {
  const pending = new Map<string, { seq: number; rows: RecordingEventRow[] }>();
  let scheduled = false;

  function add({ id, startedAt }: Subject, { type, identity, data }: Entry): void {
    const entries = pending.get(id) ?? { seq: store.nextEventSeq(id), rows: [] };
    pending.set(id, entries);
    if (entries.seq >= MAX_EVENTS) return;
    const row = { recordingId: id, seq: entries.seq++, atMs: Math.max(0, now() - startedAt), type };
    entries.rows.push({ ...row, identity: identity ?? null, data: data ?? null });
    if (scheduled) return;
    scheduled = true;
    timers.after(FLUSH_MS, () => {
      scheduled = false;
      write((unit) => {
        for (const recordingId of pending.keys()) writePending(unit, recordingId);
      }).catch((err) => log.error({ err }, "recordings: timeline not saved"));
    });
  }

  function writePending(unit: Unit, recordingId: string): void {
    const list = pending.get(recordingId);
    if (!list || list.rows.length === 0 || !store.get(recordingId)) return;
    const rows = list.rows;
    list.rows = [];
    store.addEvents(unit, rows);
  }

  return {
    addConnectionEvent(subject: Subject, event: RtcConnectionEvent): void {
      const { participantIdentity: identity } = event;
      if (event.type === "started") add(subject, { type: "participant.joined", identity });
      else if (event.type === "left")
        add(subject, { type: "participant.left", identity, data: { reason: event.reason } });
    },

    addMediaEvent(subject: Subject, event: Extract<MediaEvent, { roomId: string }>): void {
      switch (event.type) {
        case "trackPublished": {
          const { id: trackId, kind, source } = event.track;
          add(subject, { type: "track.published", identity: event.identity, data: { trackId, kind, source } });
          break;
        }
        case "trackUnpublished":
        case "trackMuted":
        case "trackUnmuted": {
          const type = `track.${event.type.slice("track".length).toLowerCase()}`;
          add(subject, { type, identity: event.identity, data: { trackId: event.trackId } });
          break;
        }
        case "speakersChanged":
          add(subject, { type: "speakers.changed", data: { speakers: event.speakers } });
          break;
        case "qualityChanged":
          add(subject, { type: "quality.changed", identity: event.identity, data: { quality: event.quality } });
          break;
        default:
          break;
      }
    },

    /** Writes the remaining events in the transaction that ends the recording. */
    flush(unit: Unit, recordingId: string): void {
      writePending(unit, recordingId);
      pending.delete(recordingId);
    },
  };
}
