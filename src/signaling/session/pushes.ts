import { createReplayRing, type ReplayRing } from "../../kernel/replay-ring.ts";
import { RESUME_RING_FRAMES } from "../../protocol/signaling.ts";

/** Data that comes over the socket is up to 64 KB a message; past this much the client gets a snapshot on resuming. */
const KEPT_CHARACTERS = 512 * 1024;

/** The pushes of one session, as far back as it may resume. */
export function createPushes(startSeq = 0): ReplayRing {
  return createReplayRing(RESUME_RING_FRAMES, { startSeq, keptCharacters: KEPT_CHARACTERS });
}
