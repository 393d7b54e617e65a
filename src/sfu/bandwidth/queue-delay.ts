// How long packets wait on the way, whatever the clocks at both ends say: the least delay of the last moments, above
// the least delay of the last half minute. Jitter leaves it alone, as some packet always gets through at once; a queue
// does not.

import type { AcknowledgedPackets } from "../wire/rtcp/twcc-feedback.ts";

const RECENT_MS = 250;
/** Soon enough for a link that has become a fraction of itself, and too soon to tell anything finer. */
const LATEST_MS = 40;
const BASE_MS = 15_000;

/** The least delay over the running and the previous window. */
class WindowedMinimum {
  readonly #windowMs: number;
  #startedMs = Number.NEGATIVE_INFINITY;
  #current = Number.POSITIVE_INFINITY;
  #previous = Number.POSITIVE_INFINITY;

  constructor(windowMs: number) {
    this.#windowMs = windowMs;
  }

  /** Of those that arrived and were not sent to fill the path. */
  add(packets: AcknowledgedPackets): void {
    const { count, sentAtMs, arrivedAtMs, probe } = packets;
    if (packets.isPlain && (arrivedAtMs[count - 1] as number) - this.#startedMs < this.#windowMs) {
      if (packets.leastDelayMs < this.#current) this.#current = packets.leastDelayMs;
      return;
    }
    let startedMs = this.#startedMs;
    let current = this.#current;
    for (let i = 0; i < count; i++) {
      const arrivedMs = arrivedAtMs[i] as number;
      if (probe[i] !== 0 || Number.isNaN(arrivedMs)) continue;
      if (arrivedMs - startedMs >= this.#windowMs) {
        this.#previous = current;
        current = Number.POSITIVE_INFINITY;
        startedMs = arrivedMs;
      }
      const delay = arrivedMs - (sentAtMs[i] as number);
      if (delay < current) current = delay;
    }
    this.#startedMs = startedMs;
    this.#current = current;
  }

  get value(): number {
    return Math.min(this.#current, this.#previous);
  }
}

export class QueueDelay {
  readonly #recent = new WindowedMinimum(RECENT_MS);
  readonly #latest = new WindowedMinimum(LATEST_MS);
  #base = new WindowedMinimum(BASE_MS);

  add(packets: AcknowledgedPackets): void {
    this.#recent.add(packets);
    this.#latest.add(packets);
    this.#base.add(packets);
  }

  get ms(): number {
    return this.#above(this.#recent.value);
  }

  /** The same of the last moment alone. */
  get latestMs(): number {
    return this.#above(this.#latest.value);
  }

  /** Of the path itself, on clocks that have nothing to do with each other. */
  get baseMs(): number {
    return this.#base.value;
  }

  /** What is waited now is how long the path is. */
  rebase(): void {
    this.#base = new WindowedMinimum(BASE_MS);
  }

  #above(delay: number): number {
    const waiting = delay - this.#base.value;
    return Number.isFinite(waiting) ? Math.max(0, waiting) : 0;
  }
}
