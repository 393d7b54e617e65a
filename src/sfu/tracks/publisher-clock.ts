/**
 * Maps a publisher's sender reports to the server's clock, with one offset for all its streams, so that audio and video stay
 * synchronous. Reports may be late but are never early, so the one with the shortest delay shows the offset best; that delay is
 * half of the shortest round trip. The offset changes suddenly only if several reports agree that a clock was set or that a
 * stream's time jumped.
 */

import { timestampDiff } from "../wire/rtp/sequence.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";

/** Two reports of the same clock differ by less than this, which allows for a drift of 200 ppm over minutes and for rounding. */
const IN_LINE_MS = 50;
/** Between two reports a busy machine may lose this much audio. Such reports are used as long as their wall clock continues. */
const LOST_AT_MOST_MS = 1_000;
const AGREEING = 3;
/** The machines' clocks drift by a fraction of this between two reports. */
const MAX_STEP_MS = 1;
/** During this time each better report is applied at once; later a difference is drift and is followed in steps. */
const SETTLING_MS = 30_000;
/** The earliest report of the current and the previous window counts. */
const WINDOW_MS = 20_000;

/** The clock of one stream, replaced when its numbers restart. */
export class StreamClock {
  /** The last accepted report, on the publisher's clock. */
  line: ClockReference | null = null;
  suspect: { line: ClockReference; count: number } | null = null;
}

export class PublisherClock {
  /** The server's clock minus the publisher's. */
  #offsetMs: number | null = null;
  #firstAtMs = 0;
  #shortestRoundTripMs: number | null = null;
  readonly #earliest = new WindowedMinimum();
  readonly #onMoved: (byMs: number) => void;

  /** `onMoved` is called when all times so far have to move; negative values move them to earlier. */
  constructor(onMoved: (byMs: number) => void = () => {}) {
    this.#onMoved = onMoved;
  }

  /** Returns the report on the server's clock, or null when it must not be used. */
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

  /** The report arrived as promptly as before, so the stream has lost time, and the clock was not set. */
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

  /** When the clock was set, reports seem earlier or later by the same amount; when the stream's time jumped, they do not. */
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

/** The smallest recent measurement. */
class WindowedMinimum {
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

  /** Moves earlier measurements to another clock. */
  shift(byMs: number): void {
    this.#before += byMs;
    this.#current += byMs;
  }

  reset(): void {
    this.#before = this.#current = Number.POSITIVE_INFINITY;
    this.#untilMs = 0;
  }
}

/**
 * Difference between the NTP time of `report` and the NTP time that `line` gives, by extrapolation, for the same RTP
 * timestamp.
 */
function deviationMs(line: ClockReference, report: ClockReference, clockRate: number): number {
  const elapsedMs = (timestampDiff(report.rtpTimestamp, line.rtpTimestamp) * 1000) / clockRate;
  return report.ntpMs - line.ntpMs - elapsedMs;
}
