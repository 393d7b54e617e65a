/** How often one viewer may ask for a whole picture: it costs the publisher, and everybody else who watches. */
import { TokenBucket } from "../transport/token-bucket.ts";

/**
 * Of each track, for whatever reason: a picture that broke, another section or layer, another subscription. Sixteen are
 * enough for a window that is drawn larger and smaller on a poor path; who needs more has one that no picture gets through.
 */
const KEYFRAMES_PER_SECOND = 0.25;
const KEYFRAMES_AT_ONCE = 16;

export class KeyframeBudgets {
  readonly #now: () => number;
  /** Only of tracks that the viewer has asked for, until they end. */
  readonly #byTrack = new Map<string, TokenBucket>();

  constructor(now: () => number) {
    this.#now = now;
  }

  mayAsk(trackId: string): boolean {
    let budget = this.#byTrack.get(trackId);
    if (!budget) {
      budget = new TokenBucket(KEYFRAMES_PER_SECOND, KEYFRAMES_AT_ONCE, this.#now);
      this.#byTrack.set(trackId, budget);
    }
    return budget.take(1);
  }

  forget(trackId: string): void {
    this.#byTrack.delete(trackId);
  }
}
