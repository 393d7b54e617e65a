import type { Unit } from "../../kernel/db/writer.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import type { MediaEvent } from "../../protocol/media-node.ts";
import type { RtcConnectionEvent } from "../sessions/events.ts";
import type { RecordingStore } from "./recording.store.ts";
import type { RecordingEventRow } from "./recording.table.ts";

/** Speakers change four times a second at most: some hours of that, and a bound for whoever comes and goes without end. */
const MAX_EVENTS = 50_000;
const FLUSH_MS = 1_000;

type Subject = { id: string; startedAt: number };
type Entry = { type: string; identity?: string; data?: Record<string, unknown> };

export type Timeline = ReturnType<typeof createTimeline>;

/** What happened while a recording ran, by the names of the pushes, at the moment in the recording at which it did. */
export function createTimeline({ log, now, timers, write }: Runtime, store: RecordingStore) {
  const pending = new Map<string, { seq: number; rows: RecordingEventRow[] }>();
  let scheduled = false;

  function add({ id, startedAt }: Subject, { type, identity, data }: Entry): void {
    const list = pending.get(id) ?? { seq: store.nextEventSeq(id), rows: [] };
    pending.set(id, list);
    if (list.seq >= MAX_EVENTS) return;
    const row = { recordingId: id, seq: list.seq++, atMs: Math.max(0, now() - startedAt), type };
    list.rows.push({ ...row, identity: identity ?? null, data: data ?? null });
    if (scheduled) return;
    scheduled = true;
    timers.after(FLUSH_MS, () => {
      scheduled = false;
      write((unit) => {
        for (const recordingId of pending.keys()) writeDown(unit, recordingId);
      }).catch((err) => log.error({ err }, "recording: its timeline was not written"));
    });
  }

  function writeDown(unit: Unit, recordingId: string): void {
    const list = pending.get(recordingId);
    if (!list || list.rows.length === 0 || !store.get(recordingId)) return;
    const rows = list.rows;
    list.rows = [];
    store.addEvents(unit, rows);
  }

  return {
    connection(subject: Subject, fact: RtcConnectionEvent): void {
      const { participantIdentity: identity } = fact;
      if (fact.type === "started") add(subject, { type: "participant.joined", identity });
      else if (fact.type === "left")
        add(subject, { type: "participant.left", identity, data: { reason: fact.reason } });
    },

    media(subject: Subject, event: Extract<MediaEvent, { roomId: string }>): void {
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

    /** With the end of the recording. */
    flush(unit: Unit, recordingId: string): void {
      writeDown(unit, recordingId);
      pending.delete(recordingId);
    },
  };
}
