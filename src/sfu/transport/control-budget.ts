/**
 * How much of the thread one connection may take by its RTCP and by its data channels. Both may cost much to read: whoever sends
 * them without end would leave nothing for the media of others. What is beyond its share is dropped unread, as a network would
 * drop it. Only what proved authentic is charged: nobody spends the share of another.
 */
const MS_PER_SECOND = 50;
const BURST_MS = 100;
/** No report takes this long to read; what does is the time of others. */
const MAX_STEP_MS = 5;

/**
 * Many connections may be one stranger's. Once all of them have taken so much of a second, only those go on to be read that have
 * taken less than twice what each would have if it were divided evenly: who reports as everybody does is read, whoever floods.
 * In a large room that is little, and somebody there may lose many packets: so much everybody has.
 */
const ALL_MS_PER_SECOND = 250;
const TIMES_EVEN = 2;
const LEAST_MS_PER_SECOND = 2;

export class ControlShare {
  #beganMs = Number.NEGATIVE_INFINITY;
  #second = 0;
  #spentMs = 0;
  #spenders = 0;

  /** Which one it is by now. */
  second(nowMs: number): number {
    if (nowMs >= this.#beganMs && nowMs - this.#beganMs < 1_000) return this.#second;
    this.#beganMs = nowMs;
    this.#spentMs = 0;
    this.#spenders = 0;
    return ++this.#second;
  }

  /** For whoever has taken so much of this second. */
  isSpent(ownMs: number): boolean {
    if (this.#spentMs < ALL_MS_PER_SECOND || ownMs < LEAST_MS_PER_SECOND) return false;
    return ownMs * this.#spenders >= TIMES_EVEN * ALL_MS_PER_SECOND;
  }

  spend(ms: number, isFirst: boolean): void {
    this.#spentMs += ms;
    if (isFirst) this.#spenders++;
  }
}

/** Of all connections of a worker, which has a thread of its own. */
const thread = new ControlShare();

export class ControlBudget {
  /** Packets that were not read. */
  dropped = 0;
  readonly #now: () => number;
  readonly #all: ControlShare;
  #leftMs = BURST_MS;
  #atMs: number;
  #second = -1;
  /** Of that second. */
  #spentMs = 0;

  constructor(now: () => number, all: ControlShare = thread) {
    this.#now = now;
    this.#all = all;
    this.#atMs = now();
  }

  isSpent(): boolean {
    const nowMs = this.#now();
    const share = (Math.max(0, nowMs - this.#atMs) / 1_000) * MS_PER_SECOND;
    this.#atMs = nowMs;
    this.#leftMs = Math.min(BURST_MS, this.#leftMs + share);
    return this.#leftMs <= 0 || this.#all.isSpent(this.#all.second(nowMs) === this.#second ? this.#spentMs : 0);
  }

  /** Reads a packet, and charges the time unless `read` returns "forged". */
  spend(read: () => unknown): void {
    const startedMs = this.#now();
    let outcome: unknown;
    try {
      outcome = read();
    } finally {
      const endedMs = this.#now();
      if (outcome !== "forged") this.#charge(Math.min(Math.max(0, endedMs - startedMs), MAX_STEP_MS), endedMs);
    }
  }

  /** Is true, and counts the packet, when it must not be read. */
  drops(): boolean {
    if (!this.isSpent()) return false;
    this.dropped++;
    return true;
  }

  #charge(ms: number, nowMs: number): void {
    this.#leftMs -= ms;
    const second = this.#all.second(nowMs);
    const isFirst = second !== this.#second;
    this.#second = second;
    this.#spentMs = isFirst ? ms : this.#spentMs + ms;
    this.#all.spend(ms, isFirst);
  }
}
