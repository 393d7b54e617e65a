// When each frame of a stream was made, on the server's clock. RTP timestamps tell how far frames lie apart; the publisher's
// sender reports tell when. Before the first report the arrival of the first packet has to do: the line keeps its shape
// when a report comes, only the place of its beginning becomes exact.

import { timestampDiff } from "../wire/rtp/sequence.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";

/**
 * Clocks of capture devices run apart from the machine's by some 100 ppm, those made of timers on a busy machine by some per
 * cent. What is reported is followed by changing how long a second lasts, so little that nobody hears it.
 */
const MAX_BEND = 0.05;
/** Reports are not more exact than this. */
const TOLERANCE_MS = 10;
/** So much was lost at once before it was sent: silence takes its place, as it would for lost packets. */
const LOST_MS = 60;
/** Between two reports a clock goes on as wrongly as it went over the last ones. */
const WINDOW_MS = 20_000;
const INTERVAL_MS = 2_000;
/** Below this the tolerance is wide enough for what comes until the next report. */
const LEAST_DRIFT = 0.002;
/** Beyond this it is no clock that runs wrongly, and will not go on like that. */
const MAX_DRIFT = 0.02;
/** Reports of sound come every five seconds or so: of what is later than this nobody knows. */
const FORESEEN_MS = 6_000;
/** Further apart than this the stream's clock was set anew. */
const JUMP_MS = 2_000;

/** An unwrapped timestamp, and when it was. */
type Report = { timestamp: number; atMs: number };

export class MediaTime {
  readonly #clockRate: number;
  /** Of the newest frame, unwrapped. */
  #timestamp = 0;
  #last: number | null = null;
  /** Where the newest frame was put, on the server's clock. */
  #atMs = 0;
  #reports: Report[] = [];
  /** By how much a second of the stream lasts longer than one of the server. */
  #drift = 0;
  #expected: ClockReference | null = null;

  constructor(clockRate: number) {
    this.#clockRate = clockRate;
  }

  /** False until the first sender report: times may move, all together. */
  get isExact(): boolean {
    return this.#reports.length > 0;
  }

  /** A report from before the first frame. */
  expect(reference: ClockReference): void {
    this.#expected = reference;
  }

  /** Server time of the frame with this RTP timestamp, in milliseconds. Frames come in order. */
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

  /** The clock that reports are told by lies elsewhere by so much. False: no frame lies on it yet. */
  move(byMs: number): boolean {
    if (!this.isExact) return false;
    this.#atMs += byMs;
    for (const report of this.#reports) report.atMs += byMs;
    return true;
  }

  /**
   * A sender report, its time already on the server's clock. Answers by how much everything before has to be moved, which
   * is not 0 for the first report alone.
   */
  report({ ntpMs, rtpTimestamp }: ClockReference): number {
    if (this.#last === null) {
      this.#expected = { ntpMs, rtpTimestamp };
      return 0;
    }
    const isFirst = !this.isExact;
    const timestamp = this.#timestamp + timestampDiff(rtpTimestamp, this.#last);
    // One that is told anew, because the clock moved, takes the place of what it said before.
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

  /** How much later than where it was put the reports have the newest frame. */
  #apartMs(): number {
    const newest = this.#reports.at(-1);
    if (!newest) return 0;
    const sinceMs = this.#msOf(this.#timestamp - newest.timestamp);
    return newest.atMs + sinceMs + Math.min(sinceMs, FORESEEN_MS) * this.#drift - this.#atMs;
  }

  /** What was lost once is not lost again: of the last two stretches the one that went better counts. */
  #measuredDrift(): number {
    const newest = this.#reports.at(-1);
    const before = newest && this.#reportBefore(newest);
    if (!before) return 0;
    const last = this.#driftBetween(before, newest);
    const oldest = this.#reportBefore(before);
    const first = oldest ? this.#driftBetween(oldest, before) : last;
    const share = Math.sign(first) === Math.sign(last) ? Math.min(Math.abs(first), Math.abs(last)) : 0;
    return share < LEAST_DRIFT ? 0 : Math.sign(last) * Math.min(MAX_DRIFT, share);
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
