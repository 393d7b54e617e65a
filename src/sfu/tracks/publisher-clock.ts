/**
 * A publisher's sender reports, put on our clock: one offset for all its streams, so that lips and sound stay together. A report
 * that comes late says nothing about clocks: what counts is how its two times lie to each other. When they jump apart (somebody
 * set the clock, or the stream's own time jumped), the line moves only once several reports agree on where it is now.
 */

import { timestampDiff } from "../rtp/sequence.ts";
import type { ClockReference } from "../rtp/timestamp-map.ts";

/** Two reports of one line lie so close, whatever the crystals: 200 ppm over minutes, and rounding. */
const IN_LINE_MS = 50;
const AGREEING = 3;
/** The two machines' clocks drift apart by a fraction of this from report to report. */
const MAX_STEP_MS = 1;

/** What is known of one stream; begun anew when its numbers are. */
export class StreamClock {
  /** As the publisher wrote it. */
  line: ClockReference | null = null;
  suspect: { line: ClockReference; count: number } | null = null;
}

export class PublisherClock {
  /** Ours minus the publisher's. */
  #offsetMs: number | null = null;

  /** The report on our clock, or null: it is not to be used, the last one goes on. */
  place(stream: StreamClock, report: ClockReference, clockRate: number, nowMs: number): ClockReference | null {
    const measuredMs = nowMs - report.ntpMs;
    this.#offsetMs ??= measuredMs;
    const jumpMs = stream.line ? deviationMs(stream.line, report, clockRate) : 0;
    if (Math.abs(jumpMs) > IN_LINE_MS && !this.#isConfirmed(stream, report, clockRate)) return null;
    if (Math.abs(jumpMs) > IN_LINE_MS) this.#absorb(jumpMs, measuredMs);
    else this.#follow(measuredMs);
    stream.line = report;
    stream.suspect = null;
    return { ntpMs: report.ntpMs + this.#offsetMs, rtpTimestamp: report.rtpTimestamp };
  }

  reset(): void {
    this.#offsetMs = null;
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
    if (Math.abs(measuredMs - (offsetMs - jumpMs)) < apartMs) this.#offsetMs = offsetMs - jumpMs;
  }

  #follow(measuredMs: number): void {
    const offsetMs = this.#offsetMs ?? measuredMs;
    this.#offsetMs = offsetMs + Math.max(-MAX_STEP_MS, Math.min(MAX_STEP_MS, measuredMs - offsetMs));
  }
}

/** How far the wall clock of `report` is ahead of where the line has it for its timestamp. */
function deviationMs(line: ClockReference, report: ClockReference, clockRate: number): number {
  const elapsedMs = (timestampDiff(report.rtpTimestamp, line.rtpTimestamp) * 1000) / clockRate;
  return report.ntpMs - line.ntpMs - elapsedMs;
}
