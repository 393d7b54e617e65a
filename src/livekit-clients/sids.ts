/** LiveKit's names for our records, and back. Pure, so that nobody has to keep a table of them. */

export const roomSid = (roomId: string) => `RM_${roomId}`;
export const participantSid = (sessionId: string) => `PA_${sessionId}`;
export const sessionIdOf = (sid: string): string | null => (sid.startsWith("PA_") ? sid.slice(3) : null);

const TRACK_PREFIX = "trk_";

export const trackSid = (trackId: string) => `TR_${trackId.slice(TRACK_PREFIX.length)}`;
export const trackIdOf = (sid: string) => `${TRACK_PREFIX}${sid.slice(3)}`;
export const newTrackId = () => `${TRACK_PREFIX}${crypto.randomUUID()}`;
