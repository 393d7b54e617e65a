import { AcknowledgedPackets } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";

/** A report of these packets, none of them of a probe, as a viewer's is once it has been matched with what was sent. */
export function reportOf(packets: readonly { sentAtMs: number; arrivedAtMs: number; bytes: number }[]) {
  const report = new AcknowledgedPackets();
  for (const { sentAtMs, arrivedAtMs, bytes } of packets) {
    report.sentAtMs[report.count] = sentAtMs;
    report.arrivedAtMs[report.count] = arrivedAtMs;
    report.bytes[report.count++] = bytes;
  }
  return report;
}
