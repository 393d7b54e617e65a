// Detects a link whose capacity has collapsed: packets wait longer and longer, and arrive far more slowly than they were sent. A
// path that only became longer delays all packets alike.

import type { AcknowledgedPackets } from "../wire/rtcp/twcc-feedback.ts";

const ENTRIES = 64;
const MASK = ENTRIES - 1;
const WINDOW_MS = 200;
/** On a link of 200 kbit/s and less, MIN_PACKETS take longer than the window. */
const LONGEST_WINDOW_MS = 500;
/** A shorter wait is a burst or jitter. */
const MIN_WAIT_MS = 60;
const MIN_PACKETS = 5;
const MIN_SPAN_MS = 60;
const FRACTION = 0.4;
/**
 * On a narrow link each packet takes the time that its bytes need. A packet that took this many times longer, and this many
 * milliseconds more, was held back until a lost packet was repeated, which shows nothing about the capacity.
 */
const HELD_UP = 2;
const HELD_UP_MS = 30;

export class BottleneckDetector {
  readonly #sentMs = new Float64Array(ENTRIES);
  readonly #arrivedMs = new Float64Array(ENTRIES);
  readonly #bytes = new Float64Array(ENTRIES);
  #count = 0;

  add({ count, sentAtMs, arrivedAtMs, bytes }: AcknowledgedPackets): void {
    let next = this.#count;
    for (let i = 0; i < count; i++) {
      const arrivedMs = arrivedAtMs[i] as number;
      if (Number.isNaN(arrivedMs)) continue;
      const at = next++ & MASK;
      this.#sentMs[at] = sentAtMs[i] as number;
      this.#arrivedMs[at] = arrivedMs;
      this.#bytes[at] = bytes[i] as number;
    }
    this.#count = next;
  }

  restart(): void {
    this.#count = 0;
  }

  /** The capacity of the new bottleneck in bits/s; undefined without one. `baseDelayMs` is the delay of the path without queues. */
  carriedBps(baseDelayMs: number): number | undefined {
    const newest = this.#count - 1;
    const oldest = Math.max(0, this.#count - ENTRIES);
    const lastArrived = this.#arrivedMs[newest & MASK] as number;
    const lastSent = this.#sentMs[newest & MASK] as number;
    let first = newest;
    let bytes = 0;
    let longestMs = 0;
    let longestBytes = 0;
    for (let n = newest; n >= oldest; n--) {
      const at = n & MASK;
      const arrived = this.#arrivedMs[at] as number;
      const waited = arrived - (this.#sentMs[at] as number) - baseDelayMs;
      const windowMs = newest - n < MIN_PACKETS ? LONGEST_WINDOW_MS : WINDOW_MS;
      if (waited < MIN_WAIT_MS || lastArrived - arrived > windowMs) break;
      // The first packet opens the interval, so its bytes are not counted.
      if (n < newest) {
        const next = (n + 1) & MASK;
        const size = this.#bytes[next] as number;
        const tookMs = (this.#arrivedMs[next] as number) - arrived;
        bytes += size;
        if (tookMs > longestMs) [longestMs, longestBytes] = [tookMs, size];
      }
      first = n;
    }
    const arrivingMs = lastArrived - (this.#arrivedMs[first & MASK] as number);
    const sendingMs = lastSent - (this.#sentMs[first & MASK] as number);
    if (newest - first + 1 < MIN_PACKETS || arrivingMs < MIN_SPAN_MS || sendingMs > arrivingMs * FRACTION)
      return undefined;
    if (longestMs > (longestBytes / bytes) * arrivingMs * HELD_UP + HELD_UP_MS) return undefined;
    return (bytes * 8000) / arrivingMs;
  }
}
