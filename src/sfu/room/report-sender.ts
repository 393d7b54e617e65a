/** The sender reports of everything that one connection sends. */
import { deriveSenderReport } from "../forwarding/sender-report.ts";
import type { Subscription } from "../tracks/subscription.ts";
import { writeSdes, writeSenderReport } from "../wire/rtcp/rtcp-write.ts";

const REPORT_INTERVAL_MS = 1_000;
const MAX_REPORT_BYTES = 1_100;
const CNAME = "stoa";

/** The reports that are being sent. */
const out = new Uint8Array(1_500);

/** Sends sender reports derived from the publishers', so that audio and video stay synchronous. */
export class ReportSender {
  readonly #send: (packet: Uint8Array) => void;

  constructor(send: (packet: Uint8Array) => void) {
    this.#send = send;
  }

  tick(subscriptions: Iterable<Subscription>, nowMs: number): void {
    let end = 0;
    for (const { section, publication } of subscriptions) {
      const { forwarder } = section;
      if (!forwarder || !section.target || nowMs < section.senderReportDueMs) continue;
      const layer = publication.layerAt(forwarder.currentLayer);
      if (!layer?.senderReport) continue;
      const report = deriveSenderReport(forwarder, layer.index, section.clockRate, layer.senderReport, nowMs);
      if (!report) continue;
      section.senderReportDueMs = nowMs + REPORT_INTERVAL_MS;
      end = writeSenderReport(out, end, report);
      section.sentReports.remember(report.ntpSeconds, report.ntpFraction, nowMs);
      end = writeSdes(out, end, report.ssrc, CNAME);
      if (end > MAX_REPORT_BYTES) {
        this.#send(out.subarray(0, end));
        end = 0;
      }
    }
    if (end > 0) this.#send(out.subarray(0, end));
  }
}
