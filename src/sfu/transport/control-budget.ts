/**
 * How much of the thread one connection may take by its control. Reports may be large, and say much that is dear to read: whoever
 * sends them without end would leave nothing for the media of others. What is beyond its share is dropped unread, as a network
 * would drop it. Only what proved authentic is charged: nobody spends the share of another.
 */
const MS_PER_SECOND = 50;
const BURST_MS = 100;
/** No report takes this long to read; what does is the time of others. */
const MAX_STEP_MS = 5;

export class ControlBudget {
  readonly #now: () => number;
  #leftMs = BURST_MS;
  #atMs: number;

  constructor(now: () => number) {
    this.#now = now;
    this.#atMs = now();
  }

  isSpent(): boolean {
    const nowMs = this.#now();
    const share = (Math.max(0, nowMs - this.#atMs) / 1_000) * MS_PER_SECOND;
    this.#atMs = nowMs;
    this.#leftMs = Math.min(BURST_MS, this.#leftMs + share);
    return this.#leftMs <= 0;
  }

  /** Reads a report. */
  spend(read: () => void): void {
    const startedMs = this.#now();
    try {
      read();
    } finally {
      this.#leftMs -= Math.min(Math.max(0, this.#now() - startedMs), MAX_STEP_MS);
    }
  }
}
