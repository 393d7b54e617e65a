/** It never changes, and to ask for it takes as long as to ask for the time. */
const { timeOrigin } = performance;

/** What time it is, for whom it is later by so much. The same code for a rehearsal and for calls: compiled code knows it again. */
export function clockAhead(ahead: { ms: number }): () => number {
  return () => timeOrigin + performance.now() + ahead.ms;
}

/** Whoever is awake anyway need not be woken again for it so soon. */
const EARLY_MS = 50;

/** How often time passes for the rooms of a worker: with packets while they come, by a timer otherwise, and not at all when nobody is there. */
export class Pace {
  readonly #now: () => number;
  readonly #tick: (nowMs: number) => void;
  #timer: Timer | null = null;
  #everyMs: number | null = null;
  #tickedAtMs = 0;

  constructor(now: () => number, tick: (nowMs: number) => void) {
    this.#now = now;
    this.#tick = tick;
  }

  /** Null: not at all. */
  set(everyMs: number | null): void {
    if (everyMs === this.#everyMs) return;
    this.stop();
    this.#everyMs = everyMs;
    if (everyMs !== null) this.#timer = setInterval(() => this.#pass(this.#now()), everyMs);
  }

  /** So often at least, until it is set anew. */
  hurry(everyMs: number): void {
    if (this.#everyMs === null || this.#everyMs > everyMs) this.set(everyMs);
  }

  /** A packet came: the loop need not wake for a timer, and under load timers starve behind packets. */
  packetCame(nowMs: number): void {
    if (this.#everyMs !== null && nowMs - this.#tickedAtMs >= Math.min(this.#everyMs, EARLY_MS)) this.#pass(nowMs);
  }

  /** In how many milliseconds it has to pass again. */
  dueInMs(nowMs: number): number {
    return this.#everyMs === null ? Number.POSITIVE_INFINITY : this.#everyMs - (nowMs - this.#tickedAtMs);
  }

  #pass(nowMs: number): void {
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
