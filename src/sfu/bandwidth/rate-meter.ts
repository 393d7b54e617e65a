// Bits per second over the last half second (or as told), in buckets: no entry per packet.

const BUCKETS = 16;
const MASK = BUCKETS - 1;

export class RateMeter {
  readonly #bucketMs: number;
  readonly #windowBuckets: number;
  readonly #bytes = new Float64Array(BUCKETS);
  readonly #index = new Float64Array(BUCKETS).fill(Number.NEGATIVE_INFINITY);
  /** Of buckets; clocks that are not ours may run below zero. */
  #first = Number.POSITIVE_INFINITY;
  #latest = Number.NEGATIVE_INFINITY;

  constructor(windowMs = 500) {
    this.#windowBuckets = 10;
    this.#bucketMs = windowMs / this.#windowBuckets;
  }

  add(bytes: number, nowMs: number): void {
    const index = Math.floor(nowMs / this.#bucketMs);
    const slot = index & MASK;
    if (this.#index[slot] !== index) {
      this.#index[slot] = index;
      this.#bytes[slot] = 0;
    }
    this.#bytes[slot] = (this.#bytes[slot] as number) + bytes;
    if (index < this.#first) this.#first = index;
    if (index > this.#latest) this.#latest = index;
  }

  /** Many at once, in columns: mostly they lie in one bucket. What has no time (NaN) is left out. */
  addAll(bytes: Uint16Array, atMs: Float64Array, count: number): void {
    let sum = 0;
    let latestMs = Number.NaN;
    let fromMs = Number.NaN;
    for (let i = 0; i < count; i++) {
      const nowMs = atMs[i] as number;
      if (nowMs >= fromMs && nowMs < fromMs + this.#bucketMs) {
        sum += bytes[i] as number;
        continue;
      }
      if (Number.isNaN(nowMs)) continue;
      if (sum > 0) this.add(sum, latestMs);
      sum = bytes[i] as number;
      latestMs = nowMs;
      fromMs = Math.floor(nowMs / this.#bucketMs) * this.#bucketMs;
    }
    if (!Number.isNaN(latestMs)) this.add(sum, latestMs);
  }

  /** The bucket still filling is left out. */
  bitsPerSecond(nowMs: number): number {
    if (this.#first === Number.POSITIVE_INFINITY) return 0;
    const now = Math.floor(nowMs / this.#bucketMs);
    const from = Math.max(this.#first, now - this.#windowBuckets);
    if (now <= from) return 0;
    let bytes = 0;
    for (let index = from; index < now; index++) {
      const slot = index & MASK;
      if (this.#index[slot] === index) bytes += this.#bytes[slot] as number;
    }
    return (bytes * 8000) / ((now - from) * this.#bucketMs);
  }

  /** It has counted for as long as its window: before that a burst passes for a rate. */
  get isFull(): boolean {
    return this.#latest - this.#first >= this.#windowBuckets;
  }

  /** As of the newest packet: for clocks that are not ours. */
  latestBitsPerSecond(): number {
    return this.bitsPerSecond(this.#latest * this.#bucketMs);
  }
}
