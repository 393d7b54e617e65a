// Maps incoming to outgoing RTP timestamps of one subscription, which continue across layers, sources and pauses.

import { timestampDiff } from "./sequence.ts";

/** A point of a layer's clock: an RTP timestamp and its NTP time. */
export interface ClockReference {
  ntpMs: number;
  rtpTimestamp: number;
}

/** Beyond this difference the publisher's clock stood still or jumped, and the time that has passed is used instead. */
const TRUST_MS = 500;

export class TimestampMap {
  #clockRate: number;
  #offset: number;
  #started = false;
  #lastOutgoing: number;
  #lastAtMs = 0;
  #reference: ClockReference | undefined;

  constructor(clockRate: number, first: number) {
    this.#clockRate = clockRate;
    this.#offset = 0;
    this.#lastOutgoing = first >>> 0;
  }

  /** outgoing = incoming + offset, for the layer being forwarded. */
  get offset(): number {
    return this.#offset;
  }

  /** Takes a sender report of the current layer. */
  setReference(reference: ClockReference): void {
    this.#reference = reference;
  }

  /** Continues with another layer or source from `timestamp` on, or with the same one after a pause. */
  switchTo(timestamp: number, nowMs: number, change: TimestampSwitch): void {
    const outgoing = this.#started ? this.#next(timestamp, nowMs, change) : this.#lastOutgoing;
    this.#offset = (outgoing - timestamp) >>> 0;
    this.#reference = change.reference;
    if (change.clockRate !== undefined) this.#clockRate = change.clockRate;
  }

  #next(timestamp: number, nowMs: number, change: TimestampSwitch): number {
    const elapsed = Math.round(((nowMs - this.#lastAtMs) * this.#clockRate) / 1000);
    const expected = (this.#lastOutgoing + Math.max(elapsed, 1)) >>> 0;
    const mapped = this.#mappedByClocks(timestamp, change);
    if (mapped === undefined) return expected;
    if (Math.abs(timestampDiff(mapped, expected)) > (TRUST_MS * this.#clockRate) / 1000) return expected;
    // Two layers may have frames of the same moment; outgoing timestamps must still increase.
    return timestampDiff(mapped, this.#lastOutgoing) > 0 ? mapped : (this.#lastOutgoing + 1) >>> 0;
  }

  /** The outgoing timestamp by the publisher's own clocks. */
  #mappedByClocks(timestamp: number, change: TimestampSwitch): number | undefined {
    if (change.sameClock) return (timestamp + this.#offset) >>> 0;
    if (change.reference === undefined || this.#reference === undefined || change.otherSource) return undefined;
    const ahead = timestampDiff(timestamp, change.reference.rtpTimestamp);
    const between = ((change.reference.ntpMs - this.#reference.ntpMs) * this.#clockRate) / 1000;
    return (this.#reference.rtpTimestamp + Math.round(between) + ahead + this.#offset) >>> 0;
  }

  /** Counts frames up to this one, whose first packet arrived at `atMs`, as forwarded. */
  catchUp(timestamp: number, atMs: number): void {
    const outgoing = (timestamp + this.#offset) >>> 0;
    if (timestampDiff(outgoing, this.#lastOutgoing) <= 0) return;
    this.#lastOutgoing = outgoing;
    this.#lastAtMs = atMs;
  }

  /** Returns the outgoing timestamp. Late packets do not advance the map. */
  map(timestamp: number, nowMs: number, late: boolean): number {
    const outgoing = (timestamp + this.#offset) >>> 0;
    if (!late && (!this.#started || timestampDiff(outgoing, this.#lastOutgoing) >= 0)) {
      // Only the first packet of a frame shows how much time has passed.
      if (outgoing !== this.#lastOutgoing || !this.#started) this.#lastAtMs = nowMs;
      this.#lastOutgoing = outgoing;
      this.#started = true;
    }
    return outgoing;
  }
}

interface TimestampSwitch {
  /** The same layer continues after a pause. */
  sameClock: boolean;
  /** Another publisher, whose clock is unrelated to the one before. */
  otherSource: boolean;
  /** The new layer's latest sender report. */
  reference: ClockReference | undefined;
  clockRate?: number;
}
