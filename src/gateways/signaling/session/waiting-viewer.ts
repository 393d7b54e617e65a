import type { Participant } from "../../../protocol/room-records.ts";
import type { PushBody } from "../../../protocol/signaling.ts";

/** What somebody who waits may hear of a push; null for nothing. */
export function shownWhileWaiting(body: PushBody): PushBody | null {
  switch (body.type) {
    case "track.published":
    case "track.unpublished":
    case "track.muted":
    case "track.unmuted":
    case "speakers.changed":
      return null;
    case "participant.joined":
    case "participant.updated":
      return { ...body, participant: withoutTracks(body.participant) };
    default:
      return body;
  }
}

export function withoutTracks(participant: Participant): Participant {
  return { ...participant, tracks: [] };
}
