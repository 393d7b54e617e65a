/**
 * How much a link between two nodes carries: any amount until its packets are late or lost, since a link seldom has a limit. The other
 * end says every second what has arrived, which is what a full link carries.
 */

const QUEUE_MS = 100;
/** Beyond what the link loses at any load. */
const HIGH_LOSS = 0.1;
/** With as much of the loss left after a decrease, the loss did not come from the load. */
const SAME_LOSS = 0.7;
const DECREASE = 0.85;
/** A queue that has become so much shorter in a second needs no more than time. */
const DRAINING = 0.9;
const MIN_BPS = 200_000;
/** Packets from before a decrease say nothing about it. */
const SETTLED_AFTER_MS = 2_000;
const GROWTH = 1.08;
/** The time from a decrease to the next growth, which doubles when growth led to the decrease. */
const GROWS_AFTER_MS = 5_000;
const MAX_GROWS_AFTER_MS = 120_000;
/** The limit is dropped when it is this many times the wanted bitrate. */
const AMPLE = 4;
/** The shortest way of the last two periods is that of the empty link; a changed route shows after them. */
const PERIOD_MS = 60_000;

/** How long packets of one direction wait, by the times at which they were sent: the two clocks differ by a constant. */
export class LinkQueue {
  #shortestMs = Number.POSITIVE_INFINITY;
  #shortestBeforeMs = Number.POSITIVE_INFINITY;
  #periodEndsMs = Number.NEGATIVE_INFINITY;
  #latestMs = Number.POSITIVE_INFINITY;

  arrived(wayMs: number, nowMs: number): void {
    if (nowMs >= this.#periodEndsMs) {
      this.#periodEndsMs = nowMs + PERIOD_MS;
      this.#shortestBeforeMs = this.#shortestMs;
      this.#shortestMs = Number.POSITIVE_INFINITY;
    }
    this.#shortestMs = Math.min(this.#shortestMs, wayMs);
    this.#latestMs = Math.min(this.#latestMs, wayMs);
  }

  /** Since the last call; null when nothing has arrived. A busy thread delays some packets, a queue all, so the shortest counts. */
  takeMs(): number | null {
    const queueMs = this.#latestMs - Math.min(this.#shortestMs, this.#shortestBeforeMs);
    this.#latestMs = Number.POSITIVE_INFINITY;
    return Number.isFinite(queueMs) ? queueMs : null;
  }
}

/** What the other end says of the last second. */
export type Arrival = { bitsPerSecond: number; lossRatio: number; queueMs: number | null };

export class LinkBudget {
  /** In bits per second. */
  limit = Number.POSITIVE_INFINITY;
  /** Lost at any load. */
  #usualLoss = 0;
  /** That has led to the last decrease. */
  #lossBefore: number | null = null;
  #queueBeforeMs = 0;
  #wasQueued = false;
  #decreasedMs = Number.NEGATIVE_INFINITY;
  #growsAfterMs = GROWS_AFTER_MS;
  #hasGrown = false;

  /** `wanted` is what would be sent without a limit. */
  reported({ bitsPerSecond, lossRatio, queueMs }: Arrival, wanted: number, nowMs: number): void {
    const isLate = queueMs !== null && queueMs > QUEUE_MS;
    // One bad second may be that of an overloaded machine.
    const isQueued = isLate && this.#wasQueued;
    this.#wasQueued = isLate;
    const isDraining = isLate && queueMs < this.#queueBeforeMs * DRAINING;
    this.#queueBeforeMs = queueMs ?? this.#queueBeforeMs;
    if (nowMs - this.#decreasedMs < SETTLED_AFTER_MS) return;
    if (this.#lossBefore !== null && lossRatio > this.#lossBefore * SAME_LOSS) this.#usualLoss = lossRatio;
    this.#usualLoss = Math.min(this.#usualLoss, lossRatio);
    this.#lossBefore = null;
    if (isDraining) return;
    if (isQueued || lossRatio > HIGH_LOSS + this.#usualLoss) {
      if (!isQueued) this.#lossBefore = lossRatio;
      this.#decrease(bitsPerSecond, nowMs);
    } else if (nowMs - this.#decreasedMs >= this.#growsAfterMs) this.#grow(wanted);
  }

  #decrease(carried: number, nowMs: number): void {
    if (this.#hasGrown) this.#growsAfterMs = Math.min(MAX_GROWS_AFTER_MS, 2 * this.#growsAfterMs);
    this.#hasGrown = false;
    this.#decreasedMs = nowMs;
    this.limit = Math.max(MIN_BPS, DECREASE * Math.min(carried, this.limit));
  }

  #grow(wanted: number): void {
    this.#hasGrown = this.limit < Number.POSITIVE_INFINITY;
    this.limit *= GROWTH;
    if (this.limit < AMPLE * wanted) return;
    this.limit = Number.POSITIVE_INFINITY;
    this.#growsAfterMs = GROWS_AFTER_MS;
  }
}
