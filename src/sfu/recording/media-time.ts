// Maps frames of a stream to the server's clock. RTP timestamps show how far frames are apart, and sender reports when they were
// captured. Before the first report the arrival of the first packet is used; the report then moves all frames together.

import { timestampDiff } from "../wire/rtp/sequence.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";

/**
 * Clocks of capture devices drift by some 100 ppm, timers on a busy machine by some per cent. Frames follow the reports by
 * stretching time, at most by this inaudible share.
 */
const MAX_BEND = 0.05;
/** The accuracy of reports. */
const TOLERANCE_MS = 10;
/** A larger gap was lost before it was sent: silence replaces it, as for lost packets. */
const LOST_MS = 60;
/** The drift between two reports is assumed to be that over the last ones. */
const WINDOW_MS = 20_000;
const INTERVAL_MS = 2_000;
/** A smaller drift stays within the tolerance until the next report. */
const MIN_DRIFT = 0.002;
/** A larger difference is no drift and will not continue. */
const MAX_DRIFT = 0.02;
/** Audio reports come about every five seconds; drift is not extrapolated further than this. */
const EXTRAPOLATED_MS = 6_000;
/** A larger difference means that the stream's clock was set. */
const JUMP_MS = 2_000;

/** An unwrapped timestamp and its time. */
type Report = { timestamp: number; atMs: number };

export class MediaTime {
  readonly #clockRate: number;
  /** The unwrapped timestamp of the newest frame. */
  #timestamp = 0;
  #last: number | null = null;
  /** The newest frame's time on the server's clock. */
  #atMs = 0;
  #reports: Report[] = [];
  /** The relative difference between a second of the stream and one of the server; positive if the stream's is longer. */
  #drift = 0;
  #expected: ClockReference | null = null;

  constructor(clockRate: number) {
    this.#clockRate = clockRate;
  }

  /** Is false until the first sender report, which moves all times together. */
  get isExact(): boolean {
    return this.#reports.length > 0;
  }

  /** Takes a report from before the first frame. */
  expect(reference: ClockReference): void {
    this.#expected = reference;
  }

  /** The server time in milliseconds of the frame with this RTP timestamp. Frames come in order. */
  at(timestamp: number, arrivedMs: number): number {
    if (this.#last === null) {
      this.#last = timestamp;
      this.#atMs = arrivedMs;
      if (this.#expected) this.report(this.#expected);
    }
    const passed = timestampDiff(timestamp, this.#last);
    const passedMs = this.#msOf(passed);
    this.#timestamp += passed;
    this.#last = timestamp;
    this.#atMs += passedMs;
    this.#atMs += this.#correctionMs(Math.abs(passedMs) * MAX_BEND);
    return this.#atMs;
  }

  /** Moves all reports after a clock was corrected; returns false while no frame depends on it. */
  move(byMs: number): boolean {
    if (!this.isExact) return false;
    this.#atMs += byMs;
    for (const report of this.#reports) report.atMs += byMs;
    return true;
  }

  /**
   * Takes a sender report in the server's time. Returns by how many milliseconds all earlier frames move: 0 except for
   * the first report.
   */
  report({ ntpMs, rtpTimestamp }: ClockReference): number {
    if (this.#last === null) {
      this.#expected = { ntpMs, rtpTimestamp };
      return 0;
    }
    const isFirst = !this.isExact;
    const timestamp = this.#timestamp + timestampDiff(rtpTimestamp, this.#last);
    // A report that is repeated because the clock moved replaces the former one.
    this.#reports = this.#reports.filter(
      (before) => before.timestamp !== timestamp && Math.abs(ntpMs - before.atMs) < WINDOW_MS,
    );
    this.#reports.push({ timestamp, atMs: ntpMs });
    this.#drift = this.#measuredDrift();
    if (!isFirst) return 0;
    const apartMs = this.#apartMs();
    this.#atMs += apartMs;
    return apartMs;
  }

  #correctionMs(bendMs: number): number {
    const apartMs = this.#apartMs();
    if (apartMs > LOST_MS || apartMs < -JUMP_MS) return apartMs;
    const beyondMs = Math.sign(apartMs) * Math.max(0, Math.abs(apartMs) - TOLERANCE_MS);
    return Math.max(-bendMs, Math.min(bendMs, beyondMs));
  }

  /** The newest frame's time by the reports minus the time it got. */
  #apartMs(): number {
    const newest = this.#reports.at(-1);
    if (!newest) return 0;
    const sinceMs = this.#msOf(this.#timestamp - newest.timestamp);
    return newest.atMs + sinceMs + Math.min(sinceMs, EXTRAPOLATED_MS) * this.#drift - this.#atMs;
  }

  /** The smaller drift of the last two intervals, because a loss in one of them does not continue. */
  #measuredDrift(): number {
    const newest = this.#reports.at(-1);
    const before = newest && this.#reportBefore(newest);
    if (!before) return 0;
    const last = this.#driftBetween(before, newest);
    const oldest = this.#reportBefore(before);
    const first = oldest ? this.#driftBetween(oldest, before) : last;
    const share = Math.sign(first) === Math.sign(last) ? Math.min(Math.abs(first), Math.abs(last)) : 0;
    return share < MIN_DRIFT ? 0 : Math.sign(last) * Math.min(MAX_DRIFT, share);
  }

  #reportBefore({ timestamp }: Report): Report | undefined {
    return this.#reports.findLast((report) => this.#msOf(timestamp - report.timestamp) >= INTERVAL_MS);
  }

  #driftBetween(from: Report, to: Report): number {
    return (to.atMs - from.atMs) / this.#msOf(to.timestamp - from.timestamp) - 1;
  }

  #msOf(timestamps: number): number {
    return (timestamps * 1_000) / this.#clockRate;
  }
}
