/** A connection over a narrow link that loses packets, and repeats them: all that comes after one waits for it. */
type RepeatingOptions = {
  bandwidthBitsPerSecond?: number;
  queueBytes?: number;
  delayMs?: number;
  /** The loss of packets and of their acknowledgements, from 0 to 1. */
  lossRatio?: number;
};

type Segment<Item> = {
  item: Item;
  bytes: number;
  number: number;
  sentMs: number;
  times: number;
  isLost: boolean;
  isKnown: boolean;
};
type OnWire<Item> = { atMs: number; sentMs: number; segment: Segment<Item> };

/** About twice what such a link holds. */
const WINDOW_BYTES = 14_000;
const REORDERING_MS = 15;
const LEAST_TIMEOUT_MS = 200;

/**
 * Repeats lost packets like a kernel: after later packets are acknowledged, else by a probe after two round trips, else by a
 * timeout.
 */
export class RepeatingLink<Item> {
  /** To its user the connection loses nothing. */
  readonly lost = 0;
  readonly #random: () => number;
  readonly #options: Required<RepeatingOptions>;
  readonly #waiting: Segment<Item>[] = [];
  readonly #wire: OnWire<Item>[] = [];
  readonly #acknowledgements: (OnWire<Item> & { upTo: number })[] = [];
  readonly #early = new Map<number, Segment<Item>>();
  #flight: Segment<Item>[] = [];
  #next = 0;
  #expected = 0;
  #freeAtMs = 0;
  #roundTrip = { ms: 0, variance: 0 };
  #latestSentMs = Number.NEGATIVE_INFINITY;
  #probeAtMs = Number.POSITIVE_INFINITY;
  #timeoutAtMs = Number.POSITIVE_INFINITY;
  #timeouts = 0;
  #hasProbed = false;

  constructor(random: () => number, options: RepeatingOptions) {
    this.#random = random;
    this.#options = { bandwidthBitsPerSecond: 1e9, queueBytes: 1e9, delayMs: 0, lossRatio: 0, ...options };
  }

  push(item: Item, bytes: number): void {
    this.#waiting.push({ item, bytes, number: -1, sentMs: 0, times: 0, isLost: false, isKnown: false });
  }

  /** In the order in which it was sent. */
  takeDue(nowMs: number): Item[] {
    const due = this.#arrive(nowMs);
    while (this.#acknowledgements[0] && this.#acknowledgements[0].atMs <= nowMs) this.#acknowledged(nowMs);
    if (nowMs >= this.#timeoutAtMs) {
      for (const segment of this.#flight) segment.isLost = true;
      this.#timeouts++;
      this.#arm(nowMs);
      this.#probeAtMs = Number.POSITIVE_INFINITY;
    } else if (nowMs >= this.#probeAtMs) {
      this.#hasProbed = true;
      const last = this.#flight.at(-1);
      if (last) this.#transmit(last, nowMs);
      this.#arm(nowMs);
    }
    for (const segment of this.#flight) if (segment.isLost) this.#transmit(segment, nowMs);
    this.#sendNew(nowMs);
    return due;
  }

  #sendNew(nowMs: number): void {
    let bytes = this.#flight.reduce((sum, segment) => sum + segment.bytes, 0);
    while (this.#waiting[0] && bytes < WINDOW_BYTES) {
      const segment = this.#waiting.shift() as Segment<Item>;
      segment.number = this.#next++;
      bytes += segment.bytes;
      this.#flight.push(segment);
      this.#transmit(segment, nowMs);
      if (this.#flight.length === 1 || !this.#hasProbed) this.#arm(nowMs);
    }
  }

  #transmit(segment: Segment<Item>, nowMs: number): void {
    Object.assign(segment, { sentMs: nowMs, isLost: false, times: segment.times + 1 });
    const { lossRatio, bandwidthBitsPerSecond, queueBytes, delayMs } = this.#options;
    const startsMs = Math.max(nowMs, this.#freeAtMs);
    const isFull = ((startsMs - nowMs) * bandwidthBitsPerSecond) / 8_000 > queueBytes;
    if (isFull || this.#random() < lossRatio) return;
    this.#freeAtMs = startsMs + (segment.bytes * 8_000) / bandwidthBitsPerSecond;
    this.#wire.push({ atMs: this.#freeAtMs + delayMs, sentMs: nowMs, segment });
  }

  #arrive(nowMs: number): Item[] {
    const due: Item[] = [];
    while (this.#wire[0] && this.#wire[0].atMs <= nowMs) {
      const { segment, sentMs } = this.#wire.shift() as OnWire<Item>;
      if (segment.number >= this.#expected) this.#early.set(segment.number, segment);
      for (let next = this.#early.get(this.#expected); next; next = this.#early.get(this.#expected)) {
        this.#early.delete(this.#expected++);
        due.push(next.item);
      }
      const { lossRatio, delayMs } = this.#options;
      if (this.#random() >= lossRatio)
        this.#acknowledgements.push({ atMs: nowMs + delayMs, sentMs, segment, upTo: this.#expected });
    }
    return due;
  }

  #acknowledged(nowMs: number): void {
    const { segment, sentMs, upTo } = this.#acknowledgements.shift() as OnWire<Item> & { upTo: number };
    if (segment.times === 1) this.#learn(nowMs - sentMs);
    segment.isKnown = true;
    this.#latestSentMs = Math.max(this.#latestSentMs, sentMs);
    const left = this.#flight.filter(({ isKnown, number }) => !isKnown && number >= upTo);
    if (left.length < this.#flight.length) {
      this.#timeouts = 0;
      this.#hasProbed = false;
    }
    this.#flight = left;
    for (const one of left) if (this.#latestSentMs - one.sentMs > REORDERING_MS) one.isLost = true;
    this.#arm(nowMs);
  }

  #learn(ms: number): void {
    const { ms: usual, variance } = this.#roundTrip;
    this.#roundTrip =
      usual === 0
        ? { ms, variance: ms / 2 }
        : { ms: usual + (ms - usual) / 8, variance: variance + (Math.abs(ms - usual) - variance) / 4 };
  }

  #arm(nowMs: number): void {
    const { ms, variance } = this.#roundTrip;
    const isIdle = this.#flight.length === 0;
    const timeoutMs = (ms + Math.max(LEAST_TIMEOUT_MS, 4 * variance)) * 2 ** this.#timeouts;
    this.#timeoutAtMs = isIdle ? Number.POSITIVE_INFINITY : nowMs + timeoutMs;
    this.#probeAtMs = isIdle || this.#hasProbed ? Number.POSITIVE_INFINITY : nowMs + Math.max(10, 2 * ms);
  }
}
