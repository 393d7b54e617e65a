// RFC 3711 packet index (Appendix A) and replay window, one per SSRC. The index is ROC·2¹⁶ + SEQ and fits a double.

const CYCLE = 0x10000;
const HALF = 0x8000;

/** Appendix A. −1 when the packet would belong before the very first cycle. */
export function estimateIndex(highest: number, sequenceNumber: number): number {
  const last = highest % CYCLE;
  const cycleStart = highest - last;
  let index = cycleStart + sequenceNumber;
  if (last < HALF) {
    if (sequenceNumber - last > HALF) index -= CYCLE;
  } else if (last - HALF > sequenceNumber) {
    index += CYCLE;
  }
  return index < 0 ? -1 : index;
}

/** Remembers the last `size` indices (a power of two, at least 64 by RFC 3711 §3.3.2). */
export class ReplayWindow {
  readonly #bits: Uint32Array;
  readonly #size: number;
  #highest = -1;

  constructor(size: number) {
    this.#size = size;
    this.#bits = new Uint32Array(size >> 5);
  }

  /** −1 before the first packet. */
  get highest(): number {
    return this.#highest;
  }

  /** False for an index already accepted, or too old to know. */
  isFresh(index: number): boolean {
    if (index > this.#highest) return true;
    if (this.#highest - index >= this.#size) return false;
    const bit = index & (this.#size - 1);
    return ((this.#bits[bit >> 5] as number) & (1 << (bit & 31))) === 0;
  }

  /** Only for packets that passed authentication: a forged one must not move the window. */
  accept(index: number): void {
    if (index > this.#highest) {
      const ahead = index - this.#highest;
      if (this.#highest < 0 || ahead >= this.#size) this.#bits.fill(0);
      else for (let skipped = this.#highest + 1; skipped < index; skipped++) this.#clear(skipped);
      this.#highest = index;
    }
    const bit = index & (this.#size - 1);
    this.#bits[bit >> 5] = (this.#bits[bit >> 5] as number) | (1 << (bit & 31));
  }

  #clear(index: number): void {
    const bit = index & (this.#size - 1);
    this.#bits[bit >> 5] = (this.#bits[bit >> 5] as number) & ~(1 << (bit & 31));
  }
}
