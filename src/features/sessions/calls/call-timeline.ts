import type { ConnectionEventType } from "../../../protocol/observability.ts";
import type { ChatService } from "../../chat/chat.ts";
import type { Connections } from "../connections/connection.service.ts";
import type { ConnectionEventRow } from "../connections/connection.store.ts";
import type { CallParticipantRow, CallRow } from "./call.store.ts";

export type TimelineSources = {
  connectionHistory: Connections["history"];
  roomMessages: ChatService["roomMessages"];
};

type CallTimelineEntry = { atMs: number; type: string; identity?: string; [more: string]: unknown };

/** A live stream with a thousand participants would have more entries than a client can show. */
const MAX_ENTRIES = 10_000;

/** The events of a connection that belong to the call, named like the notifications to clients. */
const ENTRY_TYPES: Partial<Record<ConnectionEventType, string>> = {
  participant_connection_quality_changed: "quality.changed",
  track_published: "track.published",
  track_unpublished: "track.unpublished",
  reconnecting: "reconnecting",
  reconnected: "reconnected",
};

/** The timeline of a call: joins and leaves, tracks, quality, errors and messages, in order. */
export function callTimeline(
  call: CallRow,
  participants: CallParticipantRow[],
  { connectionHistory, roomMessages }: TimelineSources,
  { now, texts }: { now: number; texts: boolean },
): CallTimelineEntry[] {
  const { projectId, environment, roomId, startedAt } = call;
  const until = call.endedAt ?? now;
  const entries: CallTimelineEntry[] = [];
  const add = (at: number, type: string, identity: string, more: object = {}) =>
    entries.push({ atMs: Math.max(0, at - startedAt), type, identity, ...more });

  for (const { identity, name, connectionId, joinedAt, leftAt, leaveReason } of participants) {
    if (entries.length >= MAX_ENTRIES) break;
    add(joinedAt, "participant.joined", identity, { connectionId, ...(name === null ? {} : { name }) });
    const key = { projectId, environment, connectionId, roomId, identity };
    const { events, errors } = connectionHistory(key, joinedAt, leftAt ?? until);
    for (const event of events) {
      const entry = entryOf(event);
      if (entry) add(event.at, entry.type, identity, { connectionId, ...entry.data });
    }
    for (const { id, category, code, message, occurredAt } of errors) {
      add(occurredAt, "error", identity, { connectionId, errorId: id, category, code, message });
    }
    if (leftAt !== null) add(leftAt, "participant.left", identity, { connectionId, reason: leaveReason });
  }
  for (const { at, messageId, senderId, text } of roomMessages({ projectId, environment }, roomId, startedAt, until)) {
    const content = texts && text !== null ? { text } : {};
    entries.push({ atMs: at - startedAt, type: "message", messageId, senderId, ...content });
  }
  return entries.sort((a, b) => a.atMs - b.atMs).slice(0, MAX_ENTRIES);
}

function entryOf({ type, source, data }: ConnectionEventRow): { type: string; data: object } | null {
  // An error that a client reported is also classified, and is included with the classified errors.
  if (type === "error" || (source === "client" && type !== "participant_connection_quality_changed")) return null;
  if (type === "ice_state_changed") {
    const media = (data as { media?: string } | null)?.media;
    return media === undefined ? null : { type: media === "stalled" ? "media.stalled" : "media.flows", data: {} };
  }
  // A client reports a limited encoder and missing keys by the same event type, without a quality.
  if (type === "participant_connection_quality_changed" && data?.quality === undefined) {
    if (data?.missingKeysOf !== undefined) return { type: "keys.missing", data };
    return data?.limitation === undefined ? null : { type: "encoder.limited", data };
  }
  const entryType = ENTRY_TYPES[type];
  return entryType === undefined ? null : { type: entryType, data: data ?? {} };
}
