// Simulates a bad network for tests: loss, bursts, delay, jitter, reordering, duplication, and a narrow link with a queue.
// It is seeded and driven by the caller's clock: the same packets at the same times have the same outcome.

export interface ImpairmentOptions {
  /** A ratio from 0 to 1, applied independently to each packet. */
  lossRatio?: number;
  /** In the first `lengthMs` of every `periodMs`, this ratio of the packets is lost; all of them by default. */
  burst?: { periodMs: number; lengthMs: number; lossRatio?: number };
  delayMs?: number;
  /** Added to the delay, uniform over 0 … jitterMs; the order of packets is kept. */
  jitterMs?: number;
  /** This ratio of packets is delayed by `reorderMs` and overtaken. */
  reorderRatio?: number;
  reorderMs?: number;
  duplicateRatio?: number;
  /** The bandwidth of the link: packets are queued, and dropped when more than `queueBytes` are in the queue. */
  bandwidthBitsPerSecond?: number;
  queueBytes?: number;
}

const DEFAULT_REORDER_MS = 20;
const DEFAULT_QUEUE_BYTES = 32_000;

export class Impairment<Packet> {
  readonly #random: () => number;
  #options: ImpairmentOptions;
  /** Sorted by time; packets with equal times stay in order of arrival. */
  readonly #due: { atMs: number; packet: Packet }[] = [];
  #linkFreeAtMs = 0;
  #lastDueMs = 0;
  lost = 0;
  delivered = 0;

  constructor(seed: number, options: ImpairmentOptions = {}) {
    this.#random = seededRandom(seed);
    this.#options = options;
  }

  /** Applies to new packets; packets in transit are not affected. */
  set(options: ImpairmentOptions): void {
    this.#options = options;
  }

  push(packet: Packet, bytes: number, nowMs: number): void {
    const { duplicateRatio = 0 } = this.#options;
    if (this.#isLost(nowMs)) {
      this.lost += 1;
      return;
    }
    this.#send(packet, bytes, nowMs);
    if (duplicateRatio > 0 && this.#random() < duplicateRatio) this.#send(packet, bytes, nowMs);
  }

  #isLost(nowMs: number): boolean {
    const { lossRatio = 0, burst } = this.#options;
    if (lossRatio > 0 && this.#random() < lossRatio) return true;
    if (burst === undefined || nowMs % burst.periodMs >= burst.lengthMs) return false;
    return this.#random() < (burst.lossRatio ?? 1);
  }

  #send(packet: Packet, bytes: number, nowMs: number): void {
    const { delayMs = 0, jitterMs = 0, reorderRatio = 0, reorderMs = DEFAULT_REORDER_MS } = this.#options;
    const throughMs = this.#throughLink(bytes, nowMs);
    if (throughMs === undefined) {
      this.lost += 1;
      return;
    }
    let atMs = throughMs + delayMs + (jitterMs > 0 ? this.#random() * jitterMs : 0);
    if (reorderRatio > 0 && this.#random() < reorderRatio) {
      atMs += reorderMs;
    } else {
      atMs = Math.max(atMs, this.#lastDueMs);
      this.#lastDueMs = atMs;
    }
    let i = this.#due.length;
    while (i > 0 && (this.#due[i - 1]?.atMs ?? 0) > atMs) i--;
    this.#due.splice(i, 0, { atMs, packet });
  }

  /** When the packet leaves the link; undefined when the queue is full. */
  #throughLink(bytes: number, nowMs: number): number | undefined {
    const { bandwidthBitsPerSecond: rate, queueBytes = DEFAULT_QUEUE_BYTES } = this.#options;
    if (rate === undefined) return nowMs;
    const waitingBytes = (Math.max(0, this.#linkFreeAtMs - nowMs) * rate) / 8000;
    if (waitingBytes + bytes > queueBytes) return undefined;
    this.#linkFreeAtMs = Math.max(nowMs, this.#linkFreeAtMs) + (bytes * 8000) / rate;
    return this.#linkFreeAtMs;
  }

  takeDue(nowMs: number): Packet[] {
    let count = 0;
    while (count < this.#due.length && (this.#due[count]?.atMs ?? 0) <= nowMs) count++;
    this.delivered += count;
    return this.#due.splice(0, count).map((entry) => entry.packet);
  }

  /** When to call `takeDue` next; undefined without packets in transit. */
  get nextDueMs(): number | undefined {
    return this.#due[0]?.atMs;
  }
}

/** Mulberry32, a small pseudo-random generator. */
export function seededRandom(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x100000000;
  };
}
