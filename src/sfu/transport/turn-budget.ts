/**
 * How much work one turn of the loop has had. Bun empties the socket before it does anything else: when packets come faster
 * than they can be handled, calls and timers would never have their turn, so media is dropped until they have had it. Only
 * work counts: a machine too busy to run us leaves a backlog that is soon caught up with, and dropping it would harm calls
 * for nothing.
 */
const TURN_MS = 200;
/** No packet takes this long to handle; what does is the time of others. */
const MAX_STEP_MS = 5;

export class TurnBudget {
  readonly #afterTurn: (turned: () => void) => void;
  #spentMs = 0;
  /** When the last packet of this turn came; null before the first. */
  #lastMs: number | null = null;
  readonly #turned = () => {
    this.#lastMs = null;
    this.#spentMs = 0;
  };

  constructor(afterTurn: (turned: () => void) => void = setImmediate) {
    this.#afterTurn = afterTurn;
  }

  /** Call with every packet; true when this turn has had its share. */
  isSpent(nowMs: number): boolean {
    if (this.#lastMs === null) this.#afterTurn(this.#turned);
    else this.#spentMs += Math.min(nowMs - this.#lastMs, MAX_STEP_MS);
    this.#lastMs = nowMs;
    return this.#spentMs > TURN_MS;
  }
}
