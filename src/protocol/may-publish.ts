import type { Permissions, TrackKind } from "./room-records.ts";

/** The rule of the spec in one place: with `publish`, one of the two flags restricts to its kind; neither or both allow both. */
export function mayPublish(permissions: Permissions, kind: TrackKind): boolean {
  if (!permissions.publish) return false;
  if (permissions.publishAudio === permissions.publishVideo) return true;
  return kind === "audio" ? permissions.publishAudio : permissions.publishVideo;
}
