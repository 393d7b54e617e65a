// A viewer's sender report, derived from the publisher's: the same NTP clock for all tracks of one publisher, with the
// RTP timestamp moved to the viewer's line, so that lips and sound stay together.

import type { ReportBlock, SenderReport } from "../wire/rtcp/rtcp.ts";
import { compactNtp, compactToMs, ntpFromMs, ntpToMs } from "../wire/rtp/ntp.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";
import type { Forwarder } from "./forwarder.ts";

const MAX_REMEMBERED = 8;

/** A publisher's sender report as it came in. */
export interface ReceivedReport {
  reference: ClockReference;
  receivedAtMs: number;
}

export function receivedReport(report: SenderReport, nowMs: number): ReceivedReport {
  const ntpMs = ntpToMs(report.ntpSeconds, report.ntpFraction);
  return { reference: { ntpMs, rtpTimestamp: report.rtpTimestamp }, receivedAtMs: nowMs };
}

/**
 * The report to send now, or undefined when there is nothing to derive it from. Both clocks are moved on by the time
 * since the publisher's report came in, as if the publisher had sent it now.
 */
export function deriveSenderReport(
  forwarder: Forwarder,
  layer: number,
  clockRate: number,
  latest: ReceivedReport,
  nowMs: number,
): Omit<SenderReport, "type" | "reports"> | undefined {
  const mapped = forwarder.mapTimestamp(layer, latest.reference.rtpTimestamp);
  if (mapped === undefined || forwarder.packets === 0) return undefined;
  const elapsedMs = nowMs - latest.receivedAtMs;
  const { seconds, fraction } = ntpFromMs(latest.reference.ntpMs + elapsedMs);
  return {
    ssrc: forwarder.ssrc,
    ntpSeconds: seconds,
    ntpFraction: fraction,
    rtpTimestamp: (mapped + Math.round((elapsedMs * clockRate) / 1000)) >>> 0,
    packetCount: forwarder.packets % 0x100000000,
    octetCount: forwarder.octets % 0x100000000,
  };
}

/**
 * Round trips to a viewer from its receiver reports. The NTP time in our reports is the publisher's, so the moment a
 * report was sent has to be remembered: it cannot be read back from the report.
 */
export class SentReports {
  readonly #compact: number[] = [];
  readonly #sentAtMs: number[] = [];

  remember(ntpSeconds: number, ntpFraction: number, nowMs: number): void {
    this.#compact.push(compactNtp(ntpSeconds, ntpFraction));
    this.#sentAtMs.push(nowMs);
    if (this.#compact.length > MAX_REMEMBERED) {
      this.#compact.shift();
      this.#sentAtMs.shift();
    }
  }

  /** Undefined when the report block answers none of the remembered reports. */
  roundTripMs(block: ReportBlock, nowMs: number): number | undefined {
    if (block.lastSenderReport === 0) return undefined;
    const sentAtMs = this.#sentAtMs[this.#compact.lastIndexOf(block.lastSenderReport)];
    if (sentAtMs === undefined) return undefined;
    return Math.max(0, nowMs - sentAtMs - compactToMs(block.delaySinceLastSenderReport));
  }
}
