/**
 * The bitrate that a link between two nodes may use. It is unlimited until packets arrive late or are lost, because most links are wider
 * than any room needs. The other end reports every second how much has arrived; on a full link that is its capacity.
 */

const QUEUE_MS = 100;
/** Loss of this much more than the link's usual loss means that the link is full. */
const HIGH_LOSS = 0.1;
/** If at least this share of the loss remains after a decrease, the load did not cause it. */
const SAME_LOSS = 0.7;
const DECREASE = 0.85;
/** A queue that shrinks to this share within a second is draining: a further decrease is not needed. */
const DRAINING = 0.9;
const MIN_BPS = 200_000;
/** Reports are ignored for this long after a decrease, because they still cover packets sent before it. */
const SETTLED_AFTER_MS = 2_000;
const GROWTH = 1.08;
/** The time from a decrease to the next growth, which doubles when growth led to the decrease. */
const GROWS_AFTER_MS = 5_000;
const MAX_GROWS_AFTER_MS = 120_000;
/** The limit is removed when it reaches this multiple of the wanted bitrate. */
const AMPLE = 4;
/**
 * The shortest travel time of the last two periods counts as that of the empty link, so a changed route is noticed
 * after two periods.
 */
const PERIOD_MS = 60_000;

/**
 * How long packets of one direction wait in queues. Send and arrival times come from two clocks, whose difference
 * cancels out.
 */
export class LinkQueue {
  #shortestMs = Number.POSITIVE_INFINITY;
  #shortestBeforeMs = Number.POSITIVE_INFINITY;
  #periodEndsMs = Number.NEGATIVE_INFINITY;
  #lowestMs = Number.POSITIVE_INFINITY;

  arrived(travelMs: number, nowMs: number): void {
    if (nowMs >= this.#periodEndsMs) {
      this.#periodEndsMs = nowMs + PERIOD_MS;
      this.#shortestBeforeMs = this.#shortestMs;
      this.#shortestMs = Number.POSITIVE_INFINITY;
    }
    this.#shortestMs = Math.min(this.#shortestMs, travelMs);
    this.#lowestMs = Math.min(this.#lowestMs, travelMs);
  }

  /**
   * Returns the queue since the last call; null if nothing has arrived. A busy thread delays some packets but a queue delays all of
   * them, so the shortest time counts.
   */
  takeMs(): number | null {
    const queueMs = this.#lowestMs - Math.min(this.#shortestMs, this.#shortestBeforeMs);
    this.#lowestMs = Number.POSITIVE_INFINITY;
    return Number.isFinite(queueMs) ? queueMs : null;
  }
}

/** The report of the other end about the last second. */
export type Arrival = { bitsPerSecond: number; lossRatio: number; queueMs: number | null };

export class LinkBudget {
  /** In bits per second. */
  limit = Number.POSITIVE_INFINITY;
  /** The share of packets that the link loses at any load. */
  #usualLoss = 0;
  /** The loss that led to the last decrease. */
  #causeOfDecrease: number | null = null;
  #queueBeforeMs = 0;
  #wasQueued = false;
  #decreasedMs = Number.NEGATIVE_INFINITY;
  #growsAfterMs = GROWS_AFTER_MS;
  #hasGrown = false;

  /** `wanted` is the bitrate that would be sent without a limit. */
  onReport({ bitsPerSecond, lossRatio, queueMs }: Arrival, wanted: number, nowMs: number): void {
    const isLate = queueMs !== null && queueMs > QUEUE_MS;
    // One late report may come from an overloaded machine; two in a row mean a queue.
    const isQueued = isLate && this.#wasQueued;
    this.#wasQueued = isLate;
    const isDraining = isLate && queueMs < this.#queueBeforeMs * DRAINING;
    this.#queueBeforeMs = queueMs ?? this.#queueBeforeMs;
    if (nowMs - this.#decreasedMs < SETTLED_AFTER_MS) return;
    if (this.#causeOfDecrease !== null && lossRatio > this.#causeOfDecrease * SAME_LOSS) this.#usualLoss = lossRatio;
    this.#usualLoss = Math.min(this.#usualLoss, lossRatio);
    this.#causeOfDecrease = null;
    if (isDraining) return;
    if (isQueued || lossRatio > HIGH_LOSS + this.#usualLoss) {
      if (!isQueued) this.#causeOfDecrease = lossRatio;
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
