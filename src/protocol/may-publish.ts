// This function is separate from the records, because the browser SDK must not bundle their schema library.
import type { Permissions, TrackKind, TrackSource } from "./room-records.ts";

/**
 * With `publish`, setting exactly one of `publishAudio` and `publishVideo` restricts publishing to that kind; neither
 * or both allow both kinds.
 */
export function mayPublish(permissions: Permissions, kind: TrackKind, source?: TrackSource): boolean {
  if (!permissions.publish) return false;
  const { publishSources = [] } = permissions;
  if (source !== undefined && publishSources.length > 0 && !publishSources.includes(source)) return false;
  if (permissions.publishAudio === permissions.publishVideo) return true;
  return kind === "audio" ? permissions.publishAudio : permissions.publishVideo;
}
