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

// What it takes to forward a layer. Encoders rest while nobody watches, and the silence before they went on says nothing of
// what they send now: one measured over it would seem to fit many times over.

/** Long enough to take a keyframe in its stride. */
const WINDOW_MS = 1_500;
const LONG_WINDOW_MS = 5_000;
/** What begins is measured anew, and for so long before it is believed to take less than it used to. */
const SILENCE_MS = 2_000;
const SETTLING_MS = 1_500;
/** Its publisher has to find out what its own path carries: for so long what it sends grows. */
const YOUNG_MS = 6_000;

export class LayerRate {
  #short = new RateMeter(WINDOW_MS);
  #long = new RateMeter(LONG_WINDOW_MS);
  #startedMs = Number.NEGATIVE_INFINITY;
  #latestMs = Number.NEGATIVE_INFINITY;
  #bytes = 0;
  /** Before it fell silent; 0 when it was not sent for long enough to tell. */
  #before = 0;

  add(bytes: number, nowMs: number): void {
    if (nowMs - this.#latestMs > SILENCE_MS) this.#begin(nowMs);
    this.#latestMs = nowMs;
    this.#bytes += bytes;
    this.#short.add(bytes, nowMs);
    this.#long.add(bytes, nowMs);
  }

  /** An encoder that has just saved a little makes up for it. */
  bitsPerSecond(nowMs: number): number {
    if (!this.#isSettling(nowMs)) return Math.max(this.#short.bitsPerSecond(nowMs), this.#long.bitsPerSecond(nowMs));
    return Math.max(this.#before, (this.#bytes * 8000) / SETTLING_MS);
  }

  /** It will come to take more than is known of it. */
  isNew(nowMs: number): boolean {
    return this.#before === 0 && nowMs - this.#startedMs < YOUNG_MS;
  }

  #isSettling(nowMs: number): boolean {
    return nowMs - this.#startedMs < SETTLING_MS;
  }

  #begin(nowMs: number): void {
    if (this.#bytes > 0 && !this.isNew(this.#latestMs)) this.#before = this.bitsPerSecond(this.#latestMs);
    this.#short = new RateMeter(WINDOW_MS);
    this.#long = new RateMeter(LONG_WINDOW_MS);
    this.#startedMs = nowMs;
    this.#bytes = 0;
  }
}
