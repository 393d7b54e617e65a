const BUCKETS = 16;
const MASK = BUCKETS - 1;

/** Measures bits per second over a window, half a second by default, in buckets instead of entries per packet. */
export class RateMeter {
  readonly #bucketMs: number;
  readonly #windowBuckets: number;
  readonly #bytes = new Float64Array(BUCKETS);
  readonly #index = new Float64Array(BUCKETS).fill(Number.NEGATIVE_INFINITY);
  /** Bucket indices, which are negative on clocks that run below zero. */
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

  /** Adds columns of packets, which mostly fall into one bucket. Packets without a time (NaN) are skipped. */
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

  /** The bucket that is still filling is not counted. */
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

  /** Is true after a whole window: before that a burst looks like a rate. */
  get isFull(): boolean {
    return this.#latest - this.#first >= this.#windowBuckets;
  }

  /** The rate as of the newest packet, for times on a foreign clock. */
  latestBitsPerSecond(): number {
    return this.bitsPerSecond(this.#latest * this.#bucketMs);
  }
}

/** Long enough that a keyframe does not dominate. */
const WINDOW_MS = 1_500;
const LONG_WINDOW_MS = 5_000;
/** After a silence the measurement starts over, and the former rate counts until the new one has settled. */
const SILENCE_MS = 2_000;
const SETTLING_MS = 1_500;
/** How long the rate of a new layer grows, while its publisher estimates its uplink. */
const YOUNG_MS = 6_000;

/**
 * Measures the bitrate of a layer. Encoders pause without viewers; a measurement that includes the pause would be far too
 * low when they continue.
 */
export class LayerRate {
  #short = new RateMeter(WINDOW_MS);
  #long = new RateMeter(LONG_WINDOW_MS);
  #startedMs = Number.NEGATIVE_INFINITY;
  #latestMs = Number.NEGATIVE_INFINITY;
  #bytes = 0;
  /** The rate before the silence; 0 when it was not measured for long enough. */
  #before = 0;

  add(bytes: number, nowMs: number): void {
    if (nowMs - this.#latestMs > SILENCE_MS) this.#begin(nowMs);
    this.#latestMs = nowMs;
    this.#bytes += bytes;
    this.#short.add(bytes, nowMs);
    this.#long.add(bytes, nowMs);
  }

  /** The larger of two windows, because an encoder that has just sent less soon sends more. */
  bitsPerSecond(nowMs: number): number {
    if (!this.#isSettling(nowMs)) return Math.max(this.#short.bitsPerSecond(nowMs), this.#long.bitsPerSecond(nowMs));
    return Math.max(this.#before, (this.#bytes * 8000) / SETTLING_MS);
  }

  /** Is true while the rate is expected to grow. */
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
