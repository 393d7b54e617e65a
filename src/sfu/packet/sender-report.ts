// A viewer's sender report, derived from the publisher's: the same NTP clock for all tracks of one publisher, with the
// RTP timestamp moved to the viewer's line, so that lips and sound stay together.

import type { Forwarder } from "./forwarder.ts";
import { ntpFromMs, ntpToMs } from "./ntp.ts";
import type { SenderReport } from "./rtcp.ts";
import type { ClockReference } from "./timestamp-map.ts";

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
 * since the publisher's report came in: browsers take a report's NTP time for the moment it was sent.
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
