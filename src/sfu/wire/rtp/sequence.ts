// Arithmetic of 16-bit sequence numbers and 32-bit timestamps, which wrap.

/** a − b on the 16-bit circle, in −32768 … 32767; positive when a is newer. */
export function sequenceDiff(a: number, b: number): number {
  return ((a - b) << 16) >> 16;
}

/** a − b on the 32-bit circle, in −2³¹ … 2³¹−1. */
export function timestampDiff(a: number, b: number): number {
  return (a - b) | 0;
}

/** Unwraps 16-bit sequence numbers. The first one seen stays itself (cycle 0). */
export class SequenceExtender {
  #highest = -1;
  #started = false;

  get started(): boolean {
    return this.#started;
  }

  /** The highest extended sequence number so far; −1 before the first. */
  get highest(): number {
    return this.#highest;
  }

  /** Extends a sequence number without changing the highest. */
  peek(sequenceNumber: number): number {
    if (!this.#started) return sequenceNumber;
    return this.#highest + sequenceDiff(sequenceNumber, this.#highest & 0xffff);
  }

  extend(sequenceNumber: number): number {
    if (!this.#started) {
      this.#started = true;
      this.#highest = sequenceNumber;
      return sequenceNumber;
    }
    const extended = this.#highest + sequenceDiff(sequenceNumber, this.#highest & 0xffff);
    if (extended > this.#highest) this.#highest = extended;
    return extended;
  }

  /** Counts the next `count` sequence numbers as received in order. */
  advance(count: number): void {
    this.#highest += count;
  }

  reset(): void {
    this.#started = false;
    this.#highest = -1;
  }
}
