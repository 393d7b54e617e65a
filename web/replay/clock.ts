/** The one clock that every track of a replay follows; its time is given, so that it can be tested without waiting. */
export class ReplayClock {
  readonly durationMs: number;
  readonly #now: () => number;
  #positionMs = 0;
  #rate = 1;
  /** When it was last started; null while it stands. */
  #since: number | null = null;

  constructor(durationMs: number, now: () => number) {
    this.durationMs = durationMs;
    this.#now = now;
  }

  get positionMs(): number {
    const ran = this.#since === null ? 0 : (this.#now() - this.#since) * this.#rate;
    return Math.min(this.durationMs, this.#positionMs + ran);
  }

  get runs(): boolean {
    return this.#since !== null;
  }

  get rate(): number {
    return this.#rate;
  }

  start(): void {
    this.#since ??= this.#now();
  }

  stop(): void {
    this.#positionMs = this.positionMs;
    this.#since = null;
  }

  seek(positionMs: number): void {
    this.#positionMs = Math.max(0, Math.min(this.durationMs, positionMs));
    if (this.#since !== null) this.#since = this.#now();
  }

  setRate(rate: number): void {
    this.seek(this.positionMs);
    this.#rate = rate;
  }
}

/** Nearer than this nobody sees or hears; further away than `JUMP_MS` it is faster to seek than to catch up. */
const CLOSE_MS = 25;
const JUMP_MS = 300;
/** How much faster or slower a track that is off may run: no voice changes its pitch by that. */
const NUDGE = 0.06;

export type Step = { show: boolean; seekMs: number | null; rate: number };

/** What a track of a file has to do now to be where the clock is. */
export function stepOf(
  file: { offsetMs: number; durationMs: number },
  clock: { positionMs: number; rate: number },
  trackMs: number,
): Step {
  const wantedMs = clock.positionMs - file.offsetMs;
  if (wantedMs < 0 || wantedMs >= file.durationMs) return { show: false, seekMs: null, rate: clock.rate };
  const behindMs = wantedMs - trackMs;
  if (Math.abs(behindMs) > JUMP_MS) return { show: true, seekMs: wantedMs, rate: clock.rate };
  if (Math.abs(behindMs) <= CLOSE_MS) return { show: true, seekMs: null, rate: clock.rate };
  return { show: true, seekMs: null, rate: clock.rate * (1 + Math.sign(behindMs) * NUDGE) };
}
