// How long packets wait on the way, whatever the clocks at both ends say: the least delay of the last moments, above
// the least delay of the last half minute. Jitter leaves it alone, as some packet always gets through at once; a queue
// does not.

const RECENT_MS = 250;
const BASE_MS = 15_000;

/** The minimum over the running and the previous window. */
class WindowedMinimum {
  readonly #windowMs: number;
  #startedMs = Number.NEGATIVE_INFINITY;
  #current = Number.POSITIVE_INFINITY;
  #previous = Number.POSITIVE_INFINITY;

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  add(value: number, nowMs: number): void {
    if (nowMs - this.#startedMs >= this.#windowMs) {
      this.#previous = this.#current;
      this.#current = Number.POSITIVE_INFINITY;
      this.#startedMs = nowMs;
    }
    if (value < this.#current) this.#current = value;
  }

  get value(): number {
    return Math.min(this.#current, this.#previous);
  }
}

export class QueueDelay {
  readonly #recent = new WindowedMinimum(RECENT_MS);
  readonly #base = new WindowedMinimum(BASE_MS);

  add(sentMs: number, arrivedMs: number): void {
    const delay = arrivedMs - sentMs;
    this.#recent.add(delay, arrivedMs);
    this.#base.add(delay, arrivedMs);
  }

  get ms(): number {
    const waiting = this.#recent.value - this.#base.value;
    return Number.isFinite(waiting) ? waiting : 0;
  }
}
