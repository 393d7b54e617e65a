import type { ConnectionEventType } from "../../protocol/observability.ts";
import type { ChatService } from "../chat/chat.ts";
import type { CallParticipantRow, CallRow } from "./call.table.ts";
import type { ObservabilityService } from "./observability.service.ts";
import type { ConnectionEventRow } from "./store/connection.table.ts";

export type TimelineSources = { happened: ObservabilityService["connections"]["happened"]; said: ChatService["said"] };

export type CallTimelineEntry = { atMs: number; type: string; identity?: string; [more: string]: unknown };

/** More than anybody can look at; a public stage with a thousand people would tell of more. */
const MOST_ENTRIES = 10_000;

/** What of a connection's own timeline belongs to the call, by the names of the pushes. */
const TOLD: Partial<Record<ConnectionEventType, string>> = {
  participant_connection_quality_changed: "quality.changed",
  track_published: "track.published",
  track_unpublished: "track.unpublished",
  reconnecting: "reconnecting",
  reconnected: "reconnected",
};

/** What happened in a call, in order: who came and went, what they sent, how it was, what failed, what was said. */
export function tellCall(
  call: CallRow,
  participants: CallParticipantRow[],
  { happened, said }: TimelineSources,
  { now, texts }: { now: number; texts: boolean },
): CallTimelineEntry[] {
  const { projectId, environment, roomId, startedAt } = call;
  const until = call.endedAt ?? now;
  const entries: CallTimelineEntry[] = [];
  const add = (at: number, type: string, identity: string, more: object = {}) =>
    entries.push({ atMs: Math.max(0, at - startedAt), type, identity, ...more });

  for (const { identity, connectionId, joinedAt, leftAt, leaveReason } of participants) {
    if (entries.length >= MOST_ENTRIES) break;
    add(joinedAt, "participant.joined", identity, { connectionId });
    const owner = { projectId, environment, connectionId, roomId, identity };
    const { events, errors } = happened(owner, joinedAt, leftAt ?? until);
    for (const event of events) {
      const told = entryOf(event);
      if (told) add(event.at, told.type, identity, { connectionId, ...told.data });
    }
    for (const { id, category, code, message, occurredAt } of errors) {
      add(occurredAt, "error", identity, { connectionId, errorId: id, category, code, message });
    }
    if (leftAt !== null) add(leftAt, "participant.left", identity, { connectionId, reason: leaveReason });
  }
  for (const { at, messageId, senderId, text } of said({ projectId, environment }, roomId, startedAt, until)) {
    const words = texts && text !== null ? { text } : {};
    entries.push({ atMs: at - startedAt, type: "message", messageId, senderId, ...words });
  }
  return entries.sort((a, b) => a.atMs - b.atMs).slice(0, MOST_ENTRIES);
}

function entryOf({ type, source, data }: ConnectionEventRow): { type: string; data: object } | null {
  // An error that a client told of is classified, and told below with its category.
  if (type === "error" || (source === "client" && type !== "participant_connection_quality_changed")) return null;
  if (type === "ice_state_changed") {
    const media = (data as { media?: string } | null)?.media;
    return media === undefined ? null : { type: media === "stalled" ? "media.stalled" : "media.flows", data: {} };
  }
  // What holds a client's encoder back is told by the same name, without a quality.
  if (type === "participant_connection_quality_changed" && data?.quality === undefined) {
    return data?.limitation === undefined ? null : { type: "encoder.limited", data };
  }
  const told = TOLD[type];
  return told === undefined ? null : { type: told, data: data ?? {} };
}
