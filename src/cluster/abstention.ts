import { createElapsed } from "../kernel/db/elapsed.ts";

/** How long a promise not to lead is good for. */
export const ABSTAIN_MS = 2_000;

/**
 * What a standby promises a leader that does not reach the log, as nobody does while it is away: not to lead for a
 * moment, so that what the leader shows meanwhile is true. A standby that reaches the log promises nothing: it will lead.
 */
export class Abstention {
  /** The log does not answer here either. */
  logIsAway = false;
  readonly #elapsed = createElapsed();
  #trying = false;
  #until = 0;

  /** True when the promise is given. */
  promise(): boolean {
    if (this.#trying || !this.logIsAway) return false;
    this.#until = this.#elapsed() + ABSTAIN_MS;
    return true;
  }

  /** Tries to lead unless it was promised not to; meanwhile nothing is promised. */
  async unlessPromised<Result>(attempt: () => Promise<Result>): Promise<Result | null> {
    if (this.#elapsed() < this.#until) return null;
    this.#trying = true;
    try {
      return await attempt();
    } finally {
      this.#trying = false;
    }
  }
}
