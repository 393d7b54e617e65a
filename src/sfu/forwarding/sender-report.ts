/**
 * The sender reports for a subscriber, derived from those of the publisher: all tracks of a publisher keep one NTP clock, and the RTP
 * timestamp is mapped to the subscriber's, so that audio and video stay synchronous.
 */
import type { ReportBlock, SenderReport } from "../wire/rtcp/rtcp.ts";
import { compactNtp, compactToMs, ntpFromMs, ntpToMs } from "../wire/rtp/ntp.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";
import type { Forwarder } from "./forwarder.ts";

const MAX_REMEMBERED = 8;

/** A sender report of a publisher. */
export interface ReceivedReport {
  reference: ClockReference;
  receivedAtMs: number;
}

export function receivedReport(report: SenderReport, nowMs: number): ReceivedReport {
  const ntpMs = ntpToMs(report.ntpSeconds, report.ntpFraction);
  return { reference: { ntpMs, rtpTimestamp: report.rtpTimestamp }, receivedAtMs: nowMs };
}

/**
 * The report to send now, or undefined when there is nothing to derive it from. Both clocks are advanced by the time since the
 * publisher's report came in, as if the publisher had sent it now.
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
 * Measures round trips to a subscriber by its receiver reports. The NTP time in the sender reports is the publisher's, so the moment
 * at which a report was sent cannot be read back from it and is remembered.
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

  /** Undefined when the report block refers to none of the remembered reports. */
  roundTripMs(block: ReportBlock, nowMs: number): number | undefined {
    if (block.lastSenderReport === 0) return undefined;
    const sentAtMs = this.#sentAtMs[this.#compact.lastIndexOf(block.lastSenderReport)];
    if (sentAtMs === undefined) return undefined;
    return Math.max(0, nowMs - sentAtMs - compactToMs(block.delaySinceLastSenderReport));
  }
}
