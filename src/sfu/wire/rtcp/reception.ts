// Reception statistics of one stream (RFC 3550 §6.4, A.3, A.8): loss, jitter and the report block.

import { compactNtp, msToCompact } from "../rtp/ntp.ts";
import { SequenceExtender, timestampDiff } from "../rtp/sequence.ts";
import type { ReportBlock } from "./rtcp.ts";

export class Reception {
  readonly #ssrc: number;
  readonly #clockRate: number;
  readonly #sequence = new SequenceExtender();
  #base = 0;
  #received = 0;
  #expectedBefore = 0;
  #receivedBefore = 0;
  #jitter = 0;
  #lastArrival = 0;
  #lastTimestamp = 0;
  #senderReportCompact = 0;
  #senderReportAtMs = 0;
  bytes = 0;

  constructor(ssrc: number, clockRate: number) {
    this.#ssrc = ssrc;
    this.#clockRate = clockRate;
  }

  /** Counts a packet and returns its unwrapped sequence number. Retransmitted packets count as received, without jitter. */
  receive(sequenceNumber: number, timestamp: number, bytes: number, nowMs: number, recovered = false): number {
    const { started, highest } = this.#sequence;
    const extended = this.#sequence.extend(sequenceNumber);
    if (!started) this.#base = extended;
    this.#received += 1;
    this.bytes += bytes;
    if (recovered || (started && extended <= highest)) return extended;
    const arrival = (nowMs * this.#clockRate) / 1000;
    if (started) {
      const transitChange = arrival - this.#lastArrival - timestampDiff(timestamp, this.#lastTimestamp);
      this.#jitter += (Math.abs(transitChange) - this.#jitter) / 16;
    }
    this.#lastArrival = arrival;
    this.#lastTimestamp = timestamp;
    return extended;
  }

  /** Counts the next `count` packets, which arrived together and have the same timestamp. */
  receiveNext(count: number, timestamp: number, bytes: number, nowMs: number): void {
    this.receive((this.#sequence.highest + 1) & 0xffff, timestamp, bytes, nowMs);
    this.#sequence.advance(count - 1);
    this.#received += count - 1;
    for (let i = 1; i < count; i++) this.#jitter -= this.#jitter / 16;
  }

  senderReport(ntpSeconds: number, ntpFraction: number, nowMs: number): void {
    this.#senderReportCompact = compactNtp(ntpSeconds, ntpFraction);
    this.#senderReportAtMs = nowMs;
  }

  /** The number of the first packet. */
  get first(): number {
    return this.#base;
  }

  /** −1 before the first packet. */
  get highest(): number {
    return this.#sequence.highest;
  }

  get jitterMs(): number {
    return (this.#jitter * 1000) / this.#clockRate;
  }

  get cumulativeLost(): number {
    return this.#sequence.started ? this.#sequence.highest - this.#base + 1 - this.#received : 0;
  }

  /** Starts a new interval; `fractionLost` is for the time since the last call. */
  takeReport(nowMs: number): ReportBlock {
    const expected = this.#sequence.started ? this.#sequence.highest - this.#base + 1 : 0;
    const expectedNow = expected - this.#expectedBefore;
    const lostNow = expectedNow - (this.#received - this.#receivedBefore);
    this.#expectedBefore = expected;
    this.#receivedBefore = this.#received;
    return {
      ssrc: this.#ssrc,
      fractionLost: expectedNow <= 0 || lostNow <= 0 ? 0 : Math.min(255, Math.floor((lostNow * 256) / expectedNow)),
      cumulativeLost: this.cumulativeLost,
      highestSequence: Math.max(0, this.#sequence.highest) % 0x100000000,
      jitter: Math.round(this.#jitter),
      lastSenderReport: this.#senderReportCompact,
      delaySinceLastSenderReport: this.#senderReportCompact === 0 ? 0 : msToCompact(nowMs - this.#senderReportAtMs),
    };
  }
}
