// Incoming to outgoing sequence numbers of one subscription. What is not forwarded leaves no gap, what is lost
// leaves one, and a late packet gets the very number that was left free for it.

const CAPACITY = 1024;
const MASK = CAPACITY - 1;
/** Of all that miss nothing: most streams never do, and each viewer has as many maps as it gets streams. Never written to. */
const NO_OFFSETS = new Float64Array(CAPACITY);
const NONE_EXPECTED = new Uint8Array(CAPACITY);

export class SequenceMap {
  /** outgoing = extended − offset. Per packet, because every drop changes it for those that follow. */
  #offsets = NO_OFFSETS;
  #expected = NONE_EXPECTED;
  /** The newest number that was left out when a later one came. CAPACITY packets after it nothing is expected any more. */
  #newestMissing = Number.NEGATIVE_INFINITY;
  #highest = -1;
  #offset = 0;
  #lastOutgoing: number;

  /** `first` is the first outgoing number: 1000 … 32767, so that the rollover counter of SRTP is not put to the test. */
  constructor(first: number) {
    this.#lastOutgoing = first - 1;
  }

  /** outgoing = extended − offset, for what comes next. */
  get offset(): number {
    return this.#offset;
  }

  get highest(): number {
    return this.#highest;
  }

  /** The highest number sent, never wrapped: the caller cuts it to 16 bits. */
  get lastOutgoing(): number {
    return this.#lastOutgoing;
  }

  /** Starts over at the packet `extended` of another layer or source: it will go out next in line. */
  switchTo(extended: number): void {
    this.#highest = extended - 1;
    this.#offset = extended - (this.#lastOutgoing + 1);
    if (this.#expected !== NONE_EXPECTED) this.#expected.fill(0);
    this.#newestMissing = Number.NEGATIVE_INFINITY;
  }

  /** The newest number that a late packet may still have; −Infinity when there is none. */
  get newestMissing(): number {
    return this.#highest - this.#newestMissing < CAPACITY ? this.#newestMissing : Number.NEGATIVE_INFINITY;
  }

  /** Those from `from` on that a late packet may still have. */
  missingFrom(from: number): number[] {
    const missing: number[] = [];
    if (this.#newestMissing < from) return missing;
    for (let extended = Math.max(from, this.#highest - CAPACITY + 1); extended <= this.#newestMissing; extended++)
      if (this.isExpected(extended)) missing.push(extended);
    return missing;
  }

  /** What `other` has been given since they were at the same number has been forwarded here, too; what it misses is missing. */
  catchUp(other: SequenceMap): void {
    const highest = other.#highest;
    const from = Math.max(this.#highest + 1, highest - CAPACITY + 1);
    const missesMore = other.#newestMissing >= from;
    if (missesMore) this.#beginToMiss();
    // Beyond the newest that was missing here all is zero already.
    const last = missesMore ? highest : Math.min(highest, this.#newestMissing + CAPACITY);
    for (let extended = from; extended <= last; extended++) {
      const slot = extended & MASK;
      this.#expected[slot] = missesMore && other.isExpected(extended) ? 1 : 0;
      this.#offsets[slot] = this.#offset;
    }
    if (missesMore) this.#newestMissing = other.#newestMissing;
    this.#highest = highest;
    this.#lastOutgoing = highest - this.#offset;
  }

  isLate(extended: number): boolean {
    return extended <= this.#highest;
  }

  /** The outgoing number, unwrapped, or −1: a duplicate, too old, or of before the switch. */
  forward(extended: number): number {
    if (extended > this.#highest) {
      this.#expectUpTo(extended);
      this.#highest = extended;
      this.#lastOutgoing = extended - this.#offset;
      return this.#lastOutgoing;
    }
    if (!this.isExpected(extended)) return -1;
    const slot = extended & MASK;
    this.#expected[slot] = 0;
    return extended - (this.#offsets[slot] as number);
  }

  /** As `forward` for the next `count` numbers, one after the other. */
  forwardNext(count: number): void {
    for (let i = 0; i < count; i++) this.forward(this.#highest + 1);
  }

  /** Leaves the packet out. False when its number has already been left free for it: then it has to be sent. */
  drop(extended: number): boolean {
    if (extended <= this.#highest) return !this.isExpected(extended);
    this.#expectUpTo(extended);
    this.#highest = extended;
    this.#offset += 1;
    return true;
  }

  /** A number was left free for it. */
  isExpected(extended: number): boolean {
    return this.#highest - extended < CAPACITY && this.#expected[extended & MASK] === 1;
  }

  #beginToMiss(): void {
    if (this.#expected !== NONE_EXPECTED) return;
    this.#offsets = new Float64Array(CAPACITY);
    this.#expected = new Uint8Array(CAPACITY);
  }

  #expectUpTo(extended: number): void {
    const from = Math.max(this.#highest + 1, extended - CAPACITY);
    if (from < extended) this.#beginToMiss();
    for (let missing = from; missing < extended; missing++) {
      this.#offsets[missing & MASK] = this.#offset;
      this.#expected[missing & MASK] = 1;
    }
    if (from < extended) this.#newestMissing = extended - 1;
    // All zero by then: a stream without losses need not touch this memory for every packet of every viewer.
    if (extended - this.#newestMissing <= CAPACITY) this.#expected[extended & MASK] = 0;
  }
}
