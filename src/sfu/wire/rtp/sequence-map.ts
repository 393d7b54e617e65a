// Maps incoming to outgoing sequence numbers of one subscription. A packet that is not forwarded leaves no gap, a lost
// packet leaves one, and a late packet gets the sequence number that was left free for it.

const CAPACITY = 1024;
const MASK = CAPACITY - 1;
/** Shared, and never written to, by maps without recent losses: every subscription has a map. */
const NO_OFFSETS = new Int32Array(CAPACITY);
const NONE_EXPECTED = new Uint8Array(CAPACITY);

export class SequenceMap {
  /** The low bits of extended − outgoing. Kept per packet, because every drop changes it for the packets that follow. */
  #offsets = NO_OFFSETS;
  #expected = NONE_EXPECTED;
  /** The newest sequence number that a later one has overtaken. CAPACITY packets later nothing is expected. */
  #newestMissing = Number.NEGATIVE_INFINITY;
  #highest = -1;
  #offset = 0;
  #lastOutgoing: number;

  /** `first` is the first outgoing sequence number: 1000 … 32767, so that SRTP's rollover counter stays 0 at first. */
  constructor(first: number) {
    this.#lastOutgoing = first - 1;
  }

  /** outgoing = extended − offset, for the next packet. */
  get offset(): number {
    return this.#offset;
  }

  get highest(): number {
    return this.#highest;
  }

  /** The highest sequence number sent, unwrapped: callers cut it to 16 bits. */
  get lastOutgoing(): number {
    return this.#lastOutgoing;
  }

  /** Continues with the packet `extended` of another layer or source, which gets the next outgoing number. */
  switchTo(extended: number): void {
    this.#highest = extended - 1;
    this.#offset = extended - (this.#lastOutgoing + 1);
    this.#forgetAll();
  }

  /** The newest sequence number that a late packet may still get; −Infinity when there is none. */
  get newestMissing(): number {
    return this.#highest - this.#newestMissing < CAPACITY ? this.#newestMissing : Number.NEGATIVE_INFINITY;
  }

  /** The sequence numbers from `from` on that a late packet may still get. */
  missingFrom(from: number): number[] {
    const missing: number[] = [];
    if (this.#newestMissing < from) return missing;
    for (let extended = Math.max(from, this.#highest - CAPACITY + 1); extended <= this.#newestMissing; extended++)
      if (this.isExpected(extended)) missing.push(extended);
    return missing;
  }

  /** Applies what `other` has forwarded and missed since both were at the same number. */
  catchUp(other: SequenceMap): void {
    const highest = other.#highest;
    const from = Math.max(this.#highest + 1, highest - CAPACITY + 1);
    const missesMore = other.#newestMissing >= from;
    if (missesMore) this.#beginToMiss();
    // Slots beyond the newest missing number are zero already.
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

  /** Returns the outgoing number, unwrapped, or −1 for a packet that is a duplicate, too old, or from before the switch. */
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
    // The low bits are enough, because offsets of neighbouring packets differ little.
    const offset = this.#offset - ((this.#offset - (this.#offsets[slot] as number)) | 0);
    return extended - offset;
  }

  forwardNext(count: number): void {
    for (let i = 0; i < count; i++) this.forward(this.#highest + 1);
  }

  /** Omits the packet. Returns false when a number was already left free for it: then it has to be sent. */
  drop(extended: number): boolean {
    if (extended <= this.#highest) return !this.isExpected(extended);
    this.#expectUpTo(extended);
    this.#highest = extended;
    this.#offset += 1;
    return true;
  }

  /** Is true when a number was left free for the packet. */
  isExpected(extended: number): boolean {
    return this.#highest - extended < CAPACITY && this.#expected[extended & MASK] === 1;
  }

  #beginToMiss(): void {
    if (this.#expected !== NONE_EXPECTED) return;
    this.#offsets = new Int32Array(CAPACITY);
    this.#expected = new Uint8Array(CAPACITY);
  }

  #forgetAll(): void {
    this.#offsets = NO_OFFSETS;
    this.#expected = NONE_EXPECTED;
    this.#newestMissing = Number.NEGATIVE_INFINITY;
  }

  #expectUpTo(extended: number): void {
    const from = Math.max(this.#highest + 1, extended - CAPACITY);
    if (from < extended) this.#beginToMiss();
    for (let missing = from; missing < extended; missing++) {
      this.#offsets[missing & MASK] = this.#offset;
      this.#expected[missing & MASK] = 1;
    }
    if (from < extended) this.#newestMissing = extended - 1;
    if (extended - this.#newestMissing <= CAPACITY) this.#expected[extended & MASK] = 0;
    else if (this.#expected !== NONE_EXPECTED) this.#forgetAll();
  }
}
