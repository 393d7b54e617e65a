/** The clock that every track of a replay follows. */
export class ReplayClock {
  readonly durationMs: number;
  readonly #now: () => number;
  #positionMs = 0;
  #rate = 1;
  /** When the clock was last started; null while it is stopped. */
  #startedAt: number | null = null;

  constructor(durationMs: number, now: () => number) {
    this.durationMs = durationMs;
    this.#now = now;
  }

  get positionMs(): number {
    const elapsedMs = this.#startedAt === null ? 0 : (this.#now() - this.#startedAt) * this.#rate;
    return Math.min(this.durationMs, this.#positionMs + elapsedMs);
  }

  get isRunning(): boolean {
    return this.#startedAt !== null;
  }

  get rate(): number {
    return this.#rate;
  }

  start(): void {
    this.#startedAt ??= this.#now();
  }

  stop(): void {
    this.#positionMs = this.positionMs;
    this.#startedAt = null;
  }

  seek(positionMs: number): void {
    this.#positionMs = Math.max(0, Math.min(this.durationMs, positionMs));
    if (this.#startedAt !== null) this.#startedAt = this.#now();
  }

  setRate(rate: number): void {
    this.seek(this.positionMs);
    this.#rate = rate;
  }
}

/** A smaller offset is imperceptible; beyond `JUMP_MS` seeking is faster than catching up. */
const TOLERANCE_MS = 25;
const JUMP_MS = 300;
/** How much faster or slower a track plays to catch up, as a fraction; a voice does not noticeably change its pitch. */
const RATE_CORRECTION = 0.06;

export type Step = { show: boolean; seekMs: number | null; rate: number };

/** How a file's track has to play or seek now to follow the clock. */
export function stepOf(
  file: { offsetMs: number; durationMs: number },
  clock: { positionMs: number; rate: number },
  trackMs: number,
): Step {
  const wantedMs = clock.positionMs - file.offsetMs;
  if (wantedMs < 0 || wantedMs >= file.durationMs) return { show: false, seekMs: null, rate: clock.rate };
  const behindMs = wantedMs - trackMs;
  if (Math.abs(behindMs) > JUMP_MS) return { show: true, seekMs: wantedMs, rate: clock.rate };
  if (Math.abs(behindMs) <= TOLERANCE_MS) return { show: true, seekMs: null, rate: clock.rate };
  return { show: true, seekMs: null, rate: clock.rate * (1 + Math.sign(behindMs) * RATE_CORRECTION) };
}
