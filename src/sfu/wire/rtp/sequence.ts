// Arithmetic of numbers that wrap: 16-bit sequence numbers and 32-bit timestamps.

/** a − b on the 16-bit circle, in −32768 … 32767. Positive: a is newer. */
export function sequenceDiff(a: number, b: number): number {
  return ((a - b) << 16) >> 16;
}

export function isNewerSequence(a: number, b: number): boolean {
  return sequenceDiff(a, b) > 0;
}

/** a − b on the 32-bit circle, in −2³¹ … 2³¹−1. */
export function timestampDiff(a: number, b: number): number {
  return (a - b) | 0;
}

/** Unwraps 16-bit numbers into a line that never wraps. The first number seen stays itself (cycle 0). */
export class SequenceExtender {
  #highest = -1;
  #started = false;

  get started(): boolean {
    return this.#started;
  }

  /** The highest extended number so far; −1 before the first. */
  get highest(): number {
    return this.#highest;
  }

  /** Extends without moving the highest: for looking things up. */
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

  /** The next `count` numbers have come, in order. */
  advance(count: number): void {
    this.#highest += count;
  }

  reset(): void {
    this.#started = false;
    this.#highest = -1;
  }
}
