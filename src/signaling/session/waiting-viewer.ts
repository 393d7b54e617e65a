import type { Participant, Permissions } from "../../protocol/room-records.ts";
import type { PushBody } from "../../protocol/signaling.ts";
import type { RtcSession } from "./rtc-session.ts";

/** What the node is told: whoever waits gets no media, whatever they ask for. */
export function permissionsAtNode({ waiting, permissions }: RtcSession): Permissions {
  return waiting ? { ...permissions, subscribe: false } : permissions;
}

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
