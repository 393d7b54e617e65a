/**
 * How much of the thread one connection may take by its RTCP, and by its data channels. Both may cost much to read, and a client that
 * sends them without end would leave no time for the media of others. Packets beyond the share are dropped unread, as a network
 * would drop them. Only authentic packets are charged, so that no client can spend the share of another.
 */
export const REPORTS_SHARE = { msPerSecond: 50, burstMs: 100 };
/** Enough for 1,000 requests a second to other participants, with their answers: 300 a second took 50 ms on a slow core. */
export const DATA_SHARE = { msPerSecond: 200, burstMs: 40 };
/** Reading a packet never takes this long. In a longer step the machine ran other processes, whose time does not count. */
const MAX_STEP_MS = 5;

/**
 * One attacker may have many connections. Once all connections together have taken ALL_MS_PER_SECOND, only those are read that have
 * taken less than TIMES_EVEN of an even share, so that usual reports are read during a flood. An even share is small in a large room,
 * where a client may lose many packets: LEAST_MS_PER_SECOND is always read.
 */
const ALL_MS_PER_SECOND = 250;
const TIMES_EVEN = 2;
const LEAST_MS_PER_SECOND = 2;

export class ControlShare {
  #beganMs = Number.NEGATIVE_INFINITY;
  #second = 0;
  #spentMs = 0;
  #spenders = 0;

  /** Returns the number of the current second. */
  second(nowMs: number): number {
    if (nowMs >= this.#beganMs && nowMs - this.#beganMs < 1_000) return this.#second;
    this.#beganMs = nowMs;
    this.#spentMs = 0;
    this.#spenders = 0;
    return ++this.#second;
  }

  /** Returns whether packets of a connection that has already taken `ownMs` of this second have to be dropped. */
  isSpent(ownMs: number): boolean {
    if (this.#spentMs < ALL_MS_PER_SECOND || ownMs < LEAST_MS_PER_SECOND) return false;
    return ownMs * this.#spenders >= TIMES_EVEN * ALL_MS_PER_SECOND;
  }

  spend(ms: number, isFirst: boolean): void {
    this.#spentMs += ms;
    if (isFirst) this.#spenders++;
  }
}

/** The share of all connections of a worker, which is a thread. */
const thread = new ControlShare();

export class ControlBudget {
  /** Packets that were not read. */
  dropped = 0;
  readonly #now: () => number;
  readonly #all: ControlShare;
  readonly #share: typeof REPORTS_SHARE;
  #leftMs: number;
  #atMs: number;
  #second = -1;
  /** The time that was spent in the current second. */
  #spentMs = 0;

  constructor(now: () => number, share = REPORTS_SHARE, all: ControlShare = thread) {
    this.#now = now;
    this.#share = share;
    this.#all = all;
    this.#leftMs = share.burstMs;
    this.#atMs = now();
  }

  isSpent(): boolean {
    const nowMs = this.#now();
    const { msPerSecond, burstMs } = this.#share;
    const earned = (Math.max(0, nowMs - this.#atMs) / 1_000) * msPerSecond;
    this.#atMs = nowMs;
    this.#leftMs = Math.min(burstMs, this.#leftMs + earned);
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

  /** Returns true, and counts the packet as dropped, if it must not be read. */
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
