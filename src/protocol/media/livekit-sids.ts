/**
 * Converts ids to LiveKit's SIDs and back, without a table. SIDs are short because the stream id in a session
 * description consists of two of them, and browsers read at most 64 characters of it. Pages use this module too.
 */

export const roomSid = (roomId: string) => `RM_${shorten(roomId)}`;
export const participantSid = (sessionId: string) => `PA_${shorten(sessionId)}`;
export const sessionIdOf = (sid: string): string | null => (sid.startsWith("PA_") ? expand(sid.slice(3)) : null);

const TRACK_PREFIX = "trk_";

export const trackSid = (trackId: string) => `TR_${shorten(trackId.slice(TRACK_PREFIX.length))}`;
export const trackIdOf = (sid: string) => `${TRACK_PREFIX}${expand(sid.slice(3))}`;
export const newTrackId = () => `${TRACK_PREFIX}${crypto.randomUUID()}`;

const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/;
const SHORT = /^[\w-]{22}$/;

/** A UUID in 22 characters instead of 36. Other ids are not changed. */
function shorten(id: string): string {
  if (!UUID.test(id)) return id;
  const bytes = id.replaceAll("-", "").replace(/../g, (hex) => String.fromCharCode(Number.parseInt(hex, 16)));
  return btoa(bytes).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

function expand(text: string): string {
  if (!SHORT.test(text)) return text;
  const bytes = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  const hex = Array.from(bytes, (byte) => byte.charCodeAt(0).toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}
