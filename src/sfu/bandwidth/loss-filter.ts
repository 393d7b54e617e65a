// Separates loss from congestion and inherent loss (radio, bursts): only the former disappears when less is sent. Reacting to the
// latter would lower a subscriber's quality in vain.

import type { AcknowledgedPackets } from "../wire/rtcp/twcc-feedback.ts";

const WINDOW_MS = 1_000;
const MIN_PACKETS = 20;
/** If the loss hardly falls when less than this share of the rate is sent, it is inherent. */
const LOWER_RATE = 0.8;
const SIMILAR_LOSS = 0.6;
/** The measured loss varies by this factor. */
const SPREAD = 1.5;

export class LossFilter {
  #reported = 0;
  #lost = 0;
  #bytes = 0;
  #startedMs = -1;
  #reference: { rate: number; ratio: number } | undefined;
  /** The loss of the first second at a lower rate than the reference. */
  #lower: number | undefined;
  #inherent = 0;
  #seen = { reported: 0, lost: 0 };

  /** Packets sent before `lessSinceMs` were already too many, so their loss counts only for `takeSeen`. */
  add({ count, sentAtMs, arrivedAtMs, bytes }: AcknowledgedPackets, lessSinceMs = Number.NEGATIVE_INFINITY): void {
    this.#seen.reported += count;
    for (let i = 0; i < count; i++) {
      const isLost = Number.isNaN(arrivedAtMs[i] as number);
      if (isLost) this.#seen.lost += 1;
      if ((sentAtMs[i] as number) <= lessSinceMs) continue;
      this.#reported += 1;
      this.#bytes += bytes[i] as number;
      if (isLost) this.#lost += 1;
    }
  }

  /** Returns the loss by congestion, 0 … 1, once a second and undefined in between. */
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

  /** Returns all loss since the last call, whatever its cause; null without a report. */
  takeSeen(): number | null {
    const { reported, lost } = this.#seen;
    this.#seen = { reported: 0, lost: 0 };
    return reported === 0 ? null : lost / reported;
  }

  /** Starts a new window after a silence. */
  restart(): void {
    this.#startedMs = -1;
    this.#reported = this.#lost = this.#bytes = 0;
  }

  #learn(rate: number, ratio: number): void {
    const before = this.#reference;
    if (before === undefined || rate >= before.rate * LOWER_RATE) {
      // At about the same rate the loss is averaged. The reference rate does not follow small decreases.
      this.#reference = { rate: Math.max(rate, before?.rate ?? 0), ratio: before ? mean(before.ratio, ratio) : ratio };
      this.#lower = undefined;
    } else {
      // One second has too few packets, so two decide.
      const lower = this.#lower === undefined ? ratio : mean(this.#lower, ratio);
      const isCertain = this.#lower !== undefined;
      this.#lower = isCertain ? undefined : lower;
      if (!isCertain) return;
      if (before.ratio > 0 && lower >= before.ratio * SIMILAR_LOSS)
        this.#inherent = Math.max(this.#inherent, mean(lower, before.ratio));
      this.#reference = { rate, ratio: lower };
    }
    // The inherent loss follows a falling measurement.
    if (ratio < this.#inherent * SPREAD) this.#inherent += (ratio - this.#inherent) * 0.2;
  }
}

function mean(a: number, b: number): number {
  return (a + b) / 2;
}
