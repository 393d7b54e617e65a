import type { ChatReport } from "../ops/load-test/chat-load.ts";
import type { Percentiles } from "../ops/load-test/figures.ts";
import type { MediaReport } from "../ops/load-test/media-load.ts";
import { table } from "./table.ts";

export function mediaTable(report: MediaReport): string {
  const { wanted, joined, refused, delayMs, lossPercent, receivedBps } = report;
  const cells = [
    `${joined} of ${wanted}`,
    String(report.packetsSent),
    `${report.packetsReceived} of ${report.packetsExpected}`,
    lossPercent === null ? "-" : `${lossPercent.toFixed(2)} %`,
    milliseconds(delayMs),
    `${(receivedBps / 1_000_000).toFixed(2)} Mbit/s`,
  ];
  return [
    table(["JOINED", "SENT", "RECEIVED", "LOSS", "DELAY MS p50/p95/p99", "BITRATE"], [cells]),
    ...causes(refused, "not joined"),
    ...advice([refused], "SIGNALING_MAX_CONNECTIONS_PER_WINDOW and RATE_LIMIT_RTC_TOKENS"),
  ].join("\n");
}

export function chatTable(report: ChatReport): string {
  const { wanted, joined, refused, sends, acks, notAcknowledged, ackMs, deliveryMs, lost, outOfOrder } = report;
  const cells = [
    `${joined} of ${wanted}`,
    String(sends),
    String(acks),
    milliseconds(ackMs),
    `${report.deliveries} of ${report.deliveriesExpected}`,
    milliseconds(deliveryMs),
    String(lost),
    String(outOfOrder),
  ];
  const header = [
    "JOINED",
    "SENDS",
    "ACKS",
    "ACK MS p50/p95/p99",
    "DELIVERIES",
    "MS p50/p95/p99",
    "LOST",
    "OUT OF ORDER",
  ];
  return [
    table(header, [cells]),
    ...causes(refused, "not joined"),
    ...causes(notAcknowledged, "not acknowledged"),
    ...advice([refused, notAcknowledged], "CHAT_CONNECTION_RATE_LIMIT and CHAT_SEND_RATE_LIMIT"),
  ].join("\n");
}

function milliseconds({ p50, p95, p99 }: Percentiles): string {
  return [p50, p95, p99].map((value) => (value === null ? "-" : value.toFixed(1))).join(" / ");
}

function causes(counts: Record<string, number>, what: string): string[] {
  return Object.entries(counts).map(([why, count]) => `${count} ${what}: ${why}`);
}

function advice(tallies: Record<string, number>[], limits: string): string[] {
  const limited = tallies.some((counts) => Object.keys(counts).some((why) => /RATE_LIMITED|4429/.test(why)));
  return limited ? [`For a test, raise ${limits} of the server.`] : [];
}
