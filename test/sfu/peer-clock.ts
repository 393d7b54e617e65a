/** A peer's two clocks as a function of true time: the monotonic one it times packets by, and the wall clock in its reports. */

export const DAY_MS = 86_400_000;
/** After this time the 24-bit reference time of a transport-wide report wraps. */
export const REFERENCE_CIRCLE_MS = 2 ** 24 * 64;

export interface PeerClockOptions {
  /** The monotonic clock at true time 0: how long the machine has been up. */
  uptimeMs?: number;
  /** Both clocks run faster by this share of a million. */
  driftPpm?: number;
  /** How far the wall clock is ahead of the true time. */
  wallAheadMs?: number;
  /** The user, or NTP, sets the wall clock. */
  sets?: readonly { atMs: number; byMs: number }[];
}

export class PeerClock {
  readonly #options: PeerClockOptions;

  constructor(options: PeerClockOptions = {}) {
    this.#options = options;
  }

  monotonicMs(trueMs: number): number {
    const { uptimeMs = 0 } = this.#options;
    return uptimeMs + this.#elapsed(trueMs);
  }

  wallMs(trueMs: number): number {
    const { wallAheadMs = 0, sets = [] } = this.#options;
    const set = sets.filter(({ atMs }) => trueMs >= atMs).reduce((sum, { byMs }) => sum + byMs, 0);
    return this.#elapsed(trueMs) + wallAheadMs + set;
  }

  #elapsed(trueMs: number): number {
    return trueMs * (1 + (this.#options.driftPpm ?? 0) / 1_000_000);
  }
}
