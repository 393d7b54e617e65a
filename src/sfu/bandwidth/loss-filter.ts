// Loss that comes from sending too much, told from loss that is simply there (radio, bursts): only the former goes
// away when less is sent. Reacting to the latter would starve a viewer for nothing.

import type { AcknowledgedPackets } from "../wire/rtcp/twcc-feedback.ts";

const WINDOW_MS = 1_000;
const MIN_PACKETS = 20;
/** Sending less than this share of before, with hardly less loss: it was not us. */
const LOWER_RATE = 0.8;
const SIMILAR_LOSS = 0.6;
/** The same loss is now a little more and now a little less. */
const SPREAD = 1.5;

export class LossFilter {
  #reported = 0;
  #lost = 0;
  #bytes = 0;
  #startedMs = -1;
  #reference: { rate: number; ratio: number } | undefined;
  /** With less sent than at the reference, for a second so far. */
  #lower: number | undefined;
  #inherent = 0;
  #seen = { reported: 0, lost: 0 };

  /** `lessSinceMs`: of what was sent before it is known that it was too much, and what a full queue dropped of it is no news. */
  add(packets: AcknowledgedPackets, lessSinceMs = Number.NEGATIVE_INFINITY): void {
    const { count, sentAtMs, arrivedAtMs, bytes } = packets;
    this.#seen.reported += count;
    if (packets.isPlain && (sentAtMs[0] as number) > lessSinceMs) {
      this.#reported += count;
      this.#bytes += packets.bytesInAll;
      return;
    }
    for (let i = 0; i < count; i++) {
      const isLost = Number.isNaN(arrivedAtMs[i] as number);
      if (isLost) this.#seen.lost += 1;
      if ((sentAtMs[i] as number) <= lessSinceMs) continue;
      this.#reported += 1;
      this.#bytes += bytes[i] as number;
      if (isLost) this.#lost += 1;
    }
  }

  /** The loss we cause, 0 … 1, once a second; undefined in between. */
  take(nowMs: number): number | undefined {
    if (this.#startedMs < 0) this.#startedMs = nowMs;
    const elapsedMs = nowMs - this.#startedMs;
    if (elapsedMs < WINDOW_MS || this.#reported < MIN_PACKETS) return undefined;
    const ratio = this.#lost / this.#reported;
    const rate = this.#bytes / elapsedMs;
    this.#startedMs = nowMs;
    this.#reported = this.#lost = this.#bytes = 0;
    this.#learn(rate, ratio);
    return Math.max(0, ratio - this.#inherent * SPREAD);
  }

  /** All loss since the last call, whoever caused it; null without a report. */
  takeSeen(): number | null {
    const { reported, lost } = this.#seen;
    this.#seen = { reported: 0, lost: 0 };
    return reported === 0 ? null : lost / reported;
  }

  /** After a silence: what is reported next is another story. */
  restart(): void {
    this.#startedMs = -1;
    this.#reported = this.#lost = this.#bytes = 0;
  }

  #learn(rate: number, ratio: number): void {
    const before = this.#reference;
    if (before === undefined || rate >= before.rate * LOWER_RATE) {
      // About as much as before: what is lost now is what counts. The rate does not follow small steps down.
      this.#reference = { rate: Math.max(rate, before?.rate ?? 0), ratio: before ? mean(before.ratio, ratio) : ratio };
      this.#lower = undefined;
    } else {
      // One second of few packets says little: two decide.
      const lower = this.#lower === undefined ? ratio : mean(this.#lower, ratio);
      const isCertain = this.#lower !== undefined;
      this.#lower = isCertain ? undefined : lower;
      if (!isCertain) return;
      if (before.ratio > 0 && lower >= before.ratio * SIMILAR_LOSS)
        this.#inherent = Math.max(this.#inherent, mean(lower, before.ratio));
      this.#reference = { rate, ratio: lower };
    }
    // It is followed, and forgotten as soon as it is gone.
    if (ratio < this.#inherent * SPREAD) this.#inherent += (ratio - this.#inherent) * 0.2;
  }
}

function mean(a: number, b: number): number {
  return (a + b) / 2;
}
