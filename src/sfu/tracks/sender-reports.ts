/** Sender reports towards a viewer, derived from the publisher's: lips and sound stay together. */

import { deriveSenderReport } from "../forwarding/sender-report.ts";
import { writeSdes, writeSenderReport } from "../wire/rtcp/rtcp-write.ts";
import type { Subscription } from "./subscription.ts";

const INTERVAL_MS = 1_000;
const MAX_BYTES = 1_100;
const CNAME = "stoa";

export class ReportSender {
  readonly #send: (packet: Uint8Array) => void;
  readonly #out = new Uint8Array(1_500);

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
      section.senderReportDueMs = nowMs + INTERVAL_MS;
      end = writeSenderReport(this.#out, end, report);
      section.sentReports.remember(report.ntpSeconds, report.ntpFraction, nowMs);
      end = writeSdes(this.#out, end, report.ssrc, CNAME);
      if (end > MAX_BYTES) {
        this.#send(this.#out.subarray(0, end));
        end = 0;
      }
    }
    if (end > 0) this.#send(this.#out.subarray(0, end));
  }
}
