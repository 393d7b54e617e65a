// Incoming to outgoing RTP timestamps of one subscription, running on over layers, sources and pauses.

import { timestampDiff } from "./sequence.ts";

/** A layer's clock: this RTP timestamp was at this NTP time. */
export interface ClockReference {
  ntpMs: number;
  rtpTimestamp: number;
}

/** Beyond this the publisher's clock stood still or jumped, and the time that really passed is the better guide. */
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

  get clockRate(): number {
    return this.#clockRate;
  }

  /** outgoing = incoming + offset, valid for the layer being forwarded. */
  get offset(): number {
    return this.#offset;
  }

  /** The current layer's sender reports, as they come. */
  setReference(reference: ClockReference): void {
    this.#reference = reference;
  }

  /** From `timestamp` on another layer or source is forwarded, or the same one after a pause. */
  switchTo(timestamp: number, nowMs: number, how: TimestampSwitch): void {
    const outgoing = this.#started ? this.#next(timestamp, nowMs, how) : this.#lastOutgoing;
    this.#offset = (outgoing - timestamp) >>> 0;
    this.#reference = how.reference;
    if (how.clockRate !== undefined) this.#clockRate = how.clockRate;
  }

  #next(timestamp: number, nowMs: number, how: TimestampSwitch): number {
    const elapsed = Math.round(((nowMs - this.#lastAtMs) * this.#clockRate) / 1000);
    const expected = (this.#lastOutgoing + Math.max(elapsed, 1)) >>> 0;
    const mapped = this.#mapped(timestamp, how);
    if (mapped === undefined) return expected;
    if (Math.abs(timestampDiff(mapped, expected)) > (TRUST_MS * this.#clockRate) / 1000) return expected;
    // Two frames of one moment on two layers: time may stand still in the source, never in the output.
    return timestampDiff(mapped, this.#lastOutgoing) > 0 ? mapped : (this.#lastOutgoing + 1) >>> 0;
  }

  /** Where the packet lies on the outgoing line by the publisher's own clocks. */
  #mapped(timestamp: number, how: TimestampSwitch): number | undefined {
    if (how.sameClock) return (timestamp + this.#offset) >>> 0;
    if (how.reference === undefined || this.#reference === undefined || how.otherSource) return undefined;
    const ahead = timestampDiff(timestamp, how.reference.rtpTimestamp);
    const between = ((how.reference.ntpMs - this.#reference.ntpMs) * this.#clockRate) / 1000;
    return (this.#reference.rtpTimestamp + Math.round(between) + ahead + this.#offset) >>> 0;
  }

  /** Frames up to this one have been forwarded; its first packet came at that time. */
  catchUp(timestamp: number, atMs: number): void {
    const outgoing = (timestamp + this.#offset) >>> 0;
    if (timestampDiff(outgoing, this.#lastOutgoing) <= 0) return;
    this.#lastOutgoing = outgoing;
    this.#lastAtMs = atMs;
  }

  /** The outgoing timestamp. Late packets do not move the line. */
  map(timestamp: number, nowMs: number, late: boolean): number {
    const outgoing = (timestamp + this.#offset) >>> 0;
    if (!late && (!this.#started || timestampDiff(outgoing, this.#lastOutgoing) >= 0)) {
      // The first packet of a frame is what tells how much time has passed.
      if (outgoing !== this.#lastOutgoing || !this.#started) this.#lastAtMs = nowMs;
      this.#lastOutgoing = outgoing;
      this.#started = true;
    }
    return outgoing;
  }
}

export interface TimestampSwitch {
  /** The same layer goes on after a pause. */
  sameClock: boolean;
  /** Another publisher: its clock has nothing to do with the one before. */
  otherSource: boolean;
  /** The new layer's latest sender report. */
  reference: ClockReference | undefined;
  clockRate?: number;
}
