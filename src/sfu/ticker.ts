/** This value never changes, and reading it takes as long as reading the time. */
const { timeOrigin } = performance;

/** A wall clock that runs ahead by `ahead.ms`. Calls and the JIT warm-up use the same code, so that it stays compiled. */
export function clockAhead(ahead: { ms: number }): () => number {
  return () => timeOrigin + performance.now() + ahead.ms;
}

/** While packets arrive, a tick may come this much early with a packet, so that the thread need not wake up for the timer. */
const EARLY_MS = 50;

/**
 * Runs the ticks of a worker's rooms: with packets while they arrive, otherwise by a timer, and not at all while all rooms are
 * empty.
 */
export class Ticker {
  readonly #now: () => number;
  readonly #tick: (nowMs: number) => void;
  #timer: Timer | null = null;
  #everyMs: number | null = null;
  #tickedAtMs = 0;

  constructor(now: () => number, tick: (nowMs: number) => void) {
    this.#now = now;
    this.#tick = tick;
  }

  /** Null stops the ticks. */
  setInterval(everyMs: number | null): void {
    if (everyMs === this.#everyMs) return;
    this.stop();
    this.#everyMs = everyMs;
    if (everyMs !== null) this.#timer = setInterval(() => this.#run(this.#now()), everyMs);
  }

  /** Ticks at least this often until the interval is set again. */
  expedite(everyMs: number): void {
    if (this.#everyMs === null || this.#everyMs > everyMs) this.setInterval(everyMs);
  }

  /** Under load, timers starve behind packets. */
  packetReceived(nowMs: number): void {
    if (this.#everyMs !== null && nowMs - this.#tickedAtMs >= Math.min(this.#everyMs, EARLY_MS)) this.#run(nowMs);
  }

  dueInMs(nowMs: number): number {
    return this.#everyMs === null ? Number.POSITIVE_INFINITY : this.#everyMs - (nowMs - this.#tickedAtMs);
  }

  #run(nowMs: number): void {
    this.#tickedAtMs = nowMs;
    this.#timer?.refresh();
    this.#tick(nowMs);
  }

  stop(): void {
    if (this.#timer) clearInterval(this.#timer);
    this.#timer = null;
    this.#everyMs = null;
  }
}
