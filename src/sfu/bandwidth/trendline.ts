// Detects a growing queue by the delay gradient of Google congestion control: packets sent together form a group, and a line is
// fitted through the delays of the groups.

import type { AcknowledgedPackets } from "../wire/rtcp/twcc-feedback.ts";
import { QueueDelay } from "./queue-delay.ts";

const GROUP_MS = 5;
const WINDOW = 20;
const ROOM = 3 * WINDOW;
const SMOOTHING = 0.9;
const GAIN = 4;
const MAX_DELTAS = 60;
const OVERUSE_MS = 10;
const MIN_THRESHOLD = 6;
const MAX_THRESHOLD = 600;
const K_UP = 0.0087;
const K_DOWN = 0.039;
/** A spike this far beyond the threshold does not adapt it. */
const MAX_ADAPT = 15;

export class Trendline {
  readonly queue = new QueueDelay();
  /** The current group; NaN before the first. */
  #firstSentMs = Number.NaN;
  #lastSentMs = Number.NaN;
  #lastArrivedMs = Number.NaN;
  /** The previous group. */
  #previousSentMs = Number.NaN;
  #previousArrivedMs = Number.NaN;
  /** The last groups, oldest first; they are moved to the front when the arrays are full. */
  readonly #times = new Float64Array(ROOM);
  readonly #delays = new Float64Array(ROOM);
  #end = 0;
  #groups = 0;
  #accumulated = 0;
  #smoothed = 0;
  #deltas = 0;
  #threshold = 12.5;
  #thresholdAt = -1;
  #overSince = -1;
  #overCount = 0;
  #lastTrend = 0;
  signal: "normal" | "overuse" | "underuse" = "normal";

  /** Takes packets in the order in which they were sent. Lost packets and probes are skipped. */
  add(packets: AcknowledgedPackets): void {
    const { count, sentAtMs, arrivedAtMs, probe } = packets;
    this.queue.add(packets);
    for (let i = 0; i < count; i++) {
      const arrivedMs = arrivedAtMs[i] as number;
      if (probe[i] === 0 && !Number.isNaN(arrivedMs)) this.#add(sentAtMs[i] as number, arrivedMs);
    }
  }

  #add(sentMs: number, arrivedMs: number): void {
    if (sentMs - this.#firstSentMs <= GROUP_MS) {
      if (sentMs > this.#lastSentMs) this.#lastSentMs = sentMs;
      if (arrivedMs > this.#lastArrivedMs) this.#lastArrivedMs = arrivedMs;
      return;
    }
    if (!Number.isNaN(this.#previousSentMs)) this.#finishGroup();
    this.#previousSentMs = this.#lastSentMs;
    this.#previousArrivedMs = this.#lastArrivedMs;
    this.#firstSentMs = this.#lastSentMs = sentMs;
    this.#lastArrivedMs = arrivedMs;
  }

  /** Forgets the measurements from before a silence. */
  restart(): void {
    this.#firstSentMs = this.#lastSentMs = this.#lastArrivedMs = Number.NaN;
    this.#previousSentMs = this.#previousArrivedMs = Number.NaN;
    this.#groups = 0;
    this.#accumulated = 0;
    this.#smoothed = 0;
    this.#deltas = 0;
    this.#overSince = -1;
    this.#overCount = 0;
    this.#lastTrend = 0;
    this.signal = "normal";
  }

  #finishGroup(): void {
    const sendDelta = this.#lastSentMs - this.#previousSentMs;
    const arrivedMs = this.#lastArrivedMs;
    this.#deltas = Math.min(this.#deltas + 1, 1_000);
    this.#accumulated += arrivedMs - this.#previousArrivedMs - sendDelta;
    this.#smoothed = SMOOTHING * this.#smoothed + (1 - SMOOTHING) * this.#accumulated;
    if (this.#end === ROOM) {
      this.#times.copyWithin(0, ROOM - WINDOW);
      this.#delays.copyWithin(0, ROOM - WINDOW);
      this.#end = WINDOW;
    }
    const at = this.#end++;
    this.#times[at] = arrivedMs;
    this.#delays[at] = this.#smoothed;
    if (this.#groups < WINDOW) this.#groups++;
    if (this.#groups === WINDOW) this.#detect(slope(this.#times, this.#delays, this.#end), sendDelta, arrivedMs);
  }

  #detect(trend: number, sendDelta: number, nowMs: number): void {
    const modified = Math.min(this.#deltas, MAX_DELTAS) * trend * GAIN;
    if (modified > this.#threshold) {
      this.#overSince = this.#overSince < 0 ? sendDelta / 2 : this.#overSince + sendDelta;
      this.#overCount += 1;
      if (this.#overSince > OVERUSE_MS && this.#overCount > 1 && trend >= this.#lastTrend) {
        this.#overSince = 0;
        this.#overCount = 0;
        this.signal = "overuse";
      }
    } else {
      this.#overSince = -1;
      this.#overCount = 0;
      this.signal = modified < -this.#threshold ? "underuse" : "normal";
    }
    this.#lastTrend = trend;
    this.#adapt(modified, nowMs);
  }

  /** The threshold follows the gradient slowly, so that competing flows do not starve this one. */
  #adapt(modified: number, nowMs: number): void {
    const size = Math.abs(modified);
    const elapsed = this.#thresholdAt < 0 ? 0 : Math.min(nowMs - this.#thresholdAt, 100);
    this.#thresholdAt = nowMs;
    if (size > this.#threshold + MAX_ADAPT) return;
    const k = size < this.#threshold ? K_DOWN : K_UP;
    this.#threshold += k * (size - this.#threshold) * Math.max(0, elapsed);
    this.#threshold = Math.max(MIN_THRESHOLD, Math.min(MAX_THRESHOLD, this.#threshold));
  }
}

/** The slope of the window that ends at `end`; times and delays are relative to its first ones, so the sums stay small. */
function slope(times: Float64Array, delays: Float64Array, end: number): number {
  const first = end - WINDOW;
  const origin = times[first] as number;
  const level = delays[first] as number;
  let sumTime = 0;
  let sumDelay = 0;
  let products = 0;
  let squares = 0;
  for (let i = first + 1; i < end; i++) {
    const time = (times[i] as number) - origin;
    const delay = (delays[i] as number) - level;
    sumTime += time;
    sumDelay += delay;
    products += time * delay;
    squares += time * time;
  }
  const denominator = WINDOW * squares - sumTime * sumTime;
  return denominator === 0 ? 0 : (WINDOW * products - sumTime * sumDelay) / denominator;
}
