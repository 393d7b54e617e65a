// Measures how long packets wait on the path, independently of the clocks at both ends: the least recent delay minus the least
// delay of the last half minute. Jitter does not affect it, because some packet always passes at once; a queue does.

import type { AcknowledgedPackets } from "../wire/rtcp/twcc-feedback.ts";

const RECENT_MS = 250;
/** Short enough to see a collapsed link at once, and too short for anything finer. */
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

  /** Counts packets that arrived and are not part of a probe. */
  add({ count, sentAtMs, arrivedAtMs, probe }: AcknowledgedPackets): void {
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

  /** The wait in the last moment only. */
  get latestMs(): number {
    return this.#above(this.#latest.value);
  }

  /** The delay of the path without queues, on two unrelated clocks. */
  get baseMs(): number {
    return this.#base.value;
  }

  /** Takes the current delay as that of the path itself. */
  rebase(): void {
    this.#base = new WindowedMinimum(BASE_MS);
  }

  #above(delay: number): number {
    const waiting = delay - this.#base.value;
    return Number.isFinite(waiting) ? Math.max(0, waiting) : 0;
  }
}
