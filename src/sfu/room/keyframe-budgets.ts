/** How often one viewer may ask for a whole picture: it costs the publisher, and everybody else who watches. */
import { TokenBucket } from "../transport/token-bucket.ts";

/** For each section. A viewer who needs more has a path that no picture gets through. */
const KEYFRAMES_PER_SECOND = 0.25;
const KEYFRAMES_AT_ONCE = 8;

export class KeyframeBudgets {
  readonly #now: () => number;
  /** By the SSRC the section sends; only of those whose viewer has asked. */
  readonly #bySsrc = new Map<number, TokenBucket>();

  constructor(now: () => number) {
    this.#now = now;
  }

  mayAsk(ssrc: number): boolean {
    let budget = this.#bySsrc.get(ssrc);
    if (!budget) {
      budget = new TokenBucket(KEYFRAMES_PER_SECOND, KEYFRAMES_AT_ONCE, this.#now);
      this.#bySsrc.set(ssrc, budget);
    }
    return budget.take(1);
  }

  forget(ssrc: number): void {
    this.#bySsrc.delete(ssrc);
  }

  clear(): void {
    this.#bySsrc.clear();
  }
}
