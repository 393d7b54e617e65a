// What it takes to forward a layer. Encoders rest while nobody watches, and the silence before they went on says nothing of
// what they send now: one measured over it would seem to fit many times over.

import { RateMeter } from "./rate-meter.ts";

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
