import type { RoomEvents } from "./sdk/index.ts";

/** The events after which a page has to render its participants and tracks again. */
export const RENDERED_ROOM_EVENTS = [
  "connectionStateChanged",
  "recordingChanged",
  "participantJoined",
  "participantLeft",
  "trackSubscribed",
  "trackUnsubscribed",
  "trackMuted",
  "trackUnmuted",
  "decryptionChanged",
  "safetyNumberChanged",
  "localTrackPublished",
  "localTrackUnpublished",
  "localTrackMuted",
  "localTrackUnmuted",
] as const satisfies (keyof RoomEvents)[];
