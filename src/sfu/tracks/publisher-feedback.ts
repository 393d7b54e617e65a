/** RTCP to a publisher: transport-wide feedback, NACKs, receiver reports and keyframe requests. */
import { PACKET_BUFFER_BYTES } from "../fast-path/send-batch.ts";
import type { RepairCounters } from "../transport/udp.ts";
import type { ReportBlock } from "../wire/rtcp/rtcp.ts";
import { writeNack, writePli, writeReceiverReport } from "../wire/rtcp/rtcp-write.ts";
import { MAX_TWCC_BYTES, TwccRecorder } from "../wire/rtcp/twcc.ts";
import type { Publication } from "./publication.ts";
import type { PublishedLayer } from "./published-layer.ts";

/** Browsers adapt their rate by this feedback: rarer makes them slow, more often costs more without effect. */
const TWCC_INTERVAL_MS = 50;
/** Once a publisher has found its rate and loses nothing, half as many reports are enough. */
const SETTLED_AFTER_MS = 3_000;
const REPORT_INTERVAL_MS = 1_000;
const MAX_NACKS = 200;

/** The packet that is being sent. */
const out = new Uint8Array(Math.max(PACKET_BUFFER_BYTES, MAX_TWCC_BYTES) + 64);

export function randomSsrc(): number {
  return 1 + Math.floor(Math.random() * 0xfffffffe);
}

/** The packets of a path, and how many of them did not arrive when first sent. */
export type PathLoss = { expected: number; lost: number };

export class PublisherFeedback {
  /** The figures of the worst stream in the last second, loss after retransmission; null before the first. */
  jitterMs: number | null = null;
  lossPercent: number | null = null;
  /** The loss on the publisher's path in the last second, whatever was repaired later. */
  pathLossPercent: number | null = null;
  readonly #send: (packet: Uint8Array) => void;
  readonly #repairs: RepairCounters;
  readonly #ssrc: number;
  /** The loss of the path that several publishers share. */
  readonly #path: PathLoss;
  /** Created with the first packet, because most participants publish nothing. */
  #twcc: TwccRecorder | null = null;
  #twccSsrc = 0;
  #twccSentMs = 0;
  /** When the publisher last had to find its rate. */
  #unsettledMs = Number.NEGATIVE_INFINITY;
  #reportedMs = 0;

  constructor(
    send: (packet: Uint8Array) => void,
    repairs: RepairCounters,
    ssrc: number = randomSsrc(),
    path: PathLoss = { expected: 0, lost: 0 },
  ) {
    this.#ssrc = ssrc;
    this.#path = path;
    this.#send = send;
    this.#repairs = repairs;
  }

  /** Takes a packet with a transport-wide number. */
  arrived(transportSequence: number, ssrc: number, nowMs: number): void {
    if (this.#twcc === null) {
      this.#twcc = new TwccRecorder();
      this.#unsettledMs = nowMs;
    }
    this.#twcc.record(transportSequence, nowMs);
    this.#twccSsrc = ssrc;
  }

  /** Takes a packet that native code has already written to the recorder's memory. */
  recordedNatively(ssrc: number): void {
    this.#twccSsrc = ssrc;
  }

  /** Is true when feedback may be sent less often. */
  isSettled(nowMs: number): boolean {
    return nowMs - this.#unsettledMs >= SETTLED_AFTER_MS;
  }

  /** The recorder's memory; null before the first packet with a transport-wide number. */
  get arrivalsMemory(): Float64Array | null {
    return this.#twcc?.memory ?? null;
  }

  tick(publications: Iterable<Publication>, rttMs: number | null, nowMs: number): void {
    if (nowMs - this.#twccSentMs >= TWCC_INTERVAL_MS) this.#sendTwcc(nowMs);
    const reports: ReportBlock[] | null = nowMs - this.#reportedMs >= REPORT_INTERVAL_MS ? [] : null;
    let jitterMs = 0;
    let fractionLost = 0;
    const path = { expected: 0, lost: 0 };
    for (const publication of publications) {
      for (const layer of publication.layers) {
        if (layer.ssrc === 0) continue;
        this.#repair(publication, layer, nowMs);
        if (rttMs !== null) layer.nack.setRtt(rttMs);
        jitterMs = Math.max(jitterMs, layer.reception?.jitterMs ?? 0);
        if (!reports) continue;
        layer.ring.release(nowMs);
        if (!layer.reception) continue;
        const { expected, lost } = layer.nack.takePathLoss();
        path.expected += expected;
        path.lost += lost;
        const report = layer.reception.takeReport(nowMs);
        fractionLost = Math.max(fractionLost, report.fractionLost);
        // The encoder adds error correction for this loss, which subscribers without RED need too.
        report.fractionLost = Math.max(report.fractionLost, publication.downlinkLoss(nowMs));
        reports.push(report);
      }
    }
    if (!reports) return;
    this.#reportedMs = nowMs;
    if (reports.length === 0) return;
    this.#send(out.subarray(0, writeReceiverReport(out, 0, this.#ssrc, reports)));
    this.lossPercent = (fractionLost * 100) / 256;
    this.pathLossPercent = path.expected === 0 ? 0 : (path.lost * 100) / path.expected;
    this.#path.expected += path.expected;
    this.#path.lost += path.lost;
    this.jitterMs = jitterMs;
  }

  /** Transport-wide feedback is sent alone, because browsers ignore it inside a compound packet. */
  #sendTwcc(nowMs: number): void {
    this.#twccSentMs = nowMs;
    const twcc = this.#twcc;
    while (twcc?.pending) {
      const end = twcc.writeFeedback(out, 0, this.#ssrc, this.#twccSsrc);
      if (end > 0) this.#send(out.subarray(0, end));
    }
  }

  #repair({ kind, codec }: Publication, layer: PublishedLayer, nowMs: number): void {
    if (layer.nack.missing > 0) {
      this.#unsettledMs = nowMs;
      const due = layer.nack.takeDue(nowMs);
      // A client that did not negotiate NACK for audio cannot send packets again.
      if (due.length > 0 && (kind === "video" || codec?.nack)) {
        this.#repairs.nacksOut += due.length;
        this.#send(out.subarray(0, writeNack(out, 0, this.#ssrc, layer.ssrc, due.slice(0, MAX_NACKS))));
      }
    }
    if (layer.takeKeyframeRequest(nowMs)) {
      this.#repairs.keyframesOut += 1;
      this.#send(out.subarray(0, writePli(out, 0, this.#ssrc, layer.ssrc)));
    }
  }

  reset(): void {
    this.#twcc = null;
    this.jitterMs = null;
    this.lossPercent = null;
    this.pathLossPercent = null;
  }
}
