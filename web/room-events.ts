import type { RoomEvents } from "./sdk/index.ts";

/** Whatever changes what a page shows of a room: who is there, and what they send. */
export const SHOWN_ROOM_EVENTS = [
  "connectionStateChanged",
  "recordingChanged",
  "participantJoined",
  "participantLeft",
  "trackSubscribed",
  "trackUnsubscribed",
  "trackMuted",
  "trackUnmuted",
  "localTrackPublished",
  "localTrackUnpublished",
  "localTrackMuted",
  "localTrackUnmuted",
] as const satisfies (keyof RoomEvents)[];
