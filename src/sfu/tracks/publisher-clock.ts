/**
 * A publisher's sender reports, put on our clock: one offset for all its streams, so that lips and sound stay together. A report
 * that comes late says nothing about clocks: what counts is how its two times lie to each other. When they jump apart (somebody
 * set the clock, or the stream's own time jumped), the line moves only once several reports agree on where it is now.
 *
 * Reports come late and never early: the one that was under way for the shortest time tells best where the publisher's clock
 * lies, and a half of the shortest round trip is how long that was. So publishers with different paths, or whose first reports
 * met a busy machine, come to lie together.
 */

import { timestampDiff } from "../wire/rtp/sequence.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";

/** Two reports of one line lie so close, whatever the crystals: 200 ppm over minutes, and rounding. */
const IN_LINE_MS = 50;
/** So much of its sound a busy machine may lose between two reports: while the clock in them goes on as before, it is believed. */
const LOST_AT_MOST_MS = 1_000;
const AGREEING = 3;
/** The two machines' clocks drift apart by a fraction of this from report to report. */
const MAX_STEP_MS = 1;
/** So long each report that shows more is believed at once; afterwards a difference is drift, and followed in steps. */
const SETTLING_MS = 30_000;
/** The earliest report of so long, and of as long before, is where the clock is followed to. */
const WINDOW_MS = 20_000;

/** What is known of one stream; begun anew when its numbers are. */
export class StreamClock {
  /** As the publisher wrote it. */
  line: ClockReference | null = null;
  suspect: { line: ClockReference; count: number } | null = null;
}

export class PublisherClock {
  /** Ours minus the publisher's. */
  #offsetMs: number | null = null;
  #firstAtMs = 0;
  #shortestRoundTripMs: number | null = null;
  readonly #earliest = new Earliest();
  readonly #onMoved: (byMs: number) => void;

  /** `onMoved`: everything that was placed so far lies that much later, less than 0 for earlier. */
  constructor(onMoved: (byMs: number) => void = () => {}) {
    this.#onMoved = onMoved;
  }

  /** The report on our clock, or null: it is not to be used, the last one goes on. */
  place(
    stream: StreamClock,
    report: ClockReference,
    clockRate: number,
    nowMs: number,
    roundTripMs: number | null = null,
  ): ClockReference | null {
    const measuredMs = nowMs - report.ntpMs;
    if (this.#offsetMs === null) this.#firstAtMs = nowMs;
    this.#offsetMs ??= measuredMs;
    const jumpMs = stream.line ? deviationMs(stream.line, report, clockRate) : 0;
    const isJump = Math.abs(jumpMs) > IN_LINE_MS && !this.#isLost(jumpMs, measuredMs);
    if (isJump && !this.#isConfirmed(stream, report, clockRate)) return null;
    if (isJump) this.#absorb(jumpMs, measuredMs);
    else this.#follow(measuredMs, nowMs, roundTripMs);
    stream.line = report;
    stream.suspect = null;
    return { ntpMs: report.ntpMs + this.#offsetMs, rtpTimestamp: report.rtpTimestamp };
  }

  reset(): void {
    this.#offsetMs = this.#shortestRoundTripMs = null;
    this.#earliest.reset();
  }

  /** The report came as promptly as ever: the clock was not set, and it is the stream that does not keep up with it. */
  #isLost(jumpMs: number, measuredMs: number): boolean {
    const apartMs = Math.abs(measuredMs - (this.#offsetMs ?? measuredMs));
    return Math.abs(jumpMs) <= LOST_AT_MOST_MS && apartMs < Math.abs(jumpMs) / 2;
  }

  #isConfirmed(stream: StreamClock, report: ClockReference, clockRate: number): boolean {
    const before = stream.suspect;
    const agrees = before !== null && Math.abs(deviationMs(before.line, report, clockRate)) <= IN_LINE_MS;
    stream.suspect = { line: report, count: agrees ? before.count + 1 : 1 };
    return stream.suspect.count >= AGREEING;
  }

  /** When the clock was set, reports seem to come earlier or later by just that; when the stream's time jumped, they do not. */
  #absorb(jumpMs: number, measuredMs: number): void {
    const offsetMs = this.#offsetMs ?? measuredMs;
    const apartMs = Math.abs(measuredMs - offsetMs);
    if (Math.abs(measuredMs - (offsetMs - jumpMs)) >= apartMs) return;
    this.#offsetMs = offsetMs - jumpMs;
    this.#earliest.shift(-jumpMs);
  }

  #follow(measuredMs: number, nowMs: number, roundTripMs: number | null): void {
    const isSettling = nowMs - this.#firstAtMs < SETTLING_MS;
    if (isSettling && roundTripMs !== null)
      this.#shortestRoundTripMs = Math.min(roundTripMs, this.#shortestRoundTripMs ?? roundTripMs);
    const earliestMs = this.#earliest.of(measuredMs, nowMs) - (this.#shortestRoundTripMs ?? 0) / 2;
    const offsetMs = this.#offsetMs ?? earliestMs;
    const byMs = earliestMs - offsetMs;
    this.#offsetMs = isSettling ? earliestMs : offsetMs + Math.max(-MAX_STEP_MS, Math.min(MAX_STEP_MS, byMs));
    if (isSettling && byMs !== 0) this.#onMoved(byMs);
  }
}

/** The smallest of what was measured lately. */
class Earliest {
  #before = Number.POSITIVE_INFINITY;
  #current = Number.POSITIVE_INFINITY;
  #untilMs = 0;

  of(measuredMs: number, nowMs: number): number {
    if (nowMs >= this.#untilMs) {
      this.#before = this.#current;
      this.#current = Number.POSITIVE_INFINITY;
      this.#untilMs = nowMs + WINDOW_MS;
    }
    this.#current = Math.min(this.#current, measuredMs);
    return Math.min(this.#before, this.#current);
  }

  /** What was measured before was measured on another clock. */
  shift(byMs: number): void {
    this.#before += byMs;
    this.#current += byMs;
  }

  reset(): void {
    this.#before = this.#current = Number.POSITIVE_INFINITY;
    this.#untilMs = 0;
  }
}

/** How far the wall clock of `report` is ahead of where the line has it for its timestamp. */
function deviationMs(line: ClockReference, report: ClockReference, clockRate: number): number {
  const elapsedMs = (timestampDiff(report.rtpTimestamp, line.rtpTimestamp) * 1000) / clockRate;
  return report.ntpMs - line.ntpMs - elapsedMs;
}
