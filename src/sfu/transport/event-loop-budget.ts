/**
 * How long packets may be handled before the event loop runs anything else. Bun empties the socket first: if packets
 * arrive faster than they can be handled, calls and timers would never run, so media is dropped until they have. Only
 * time spent working counts: a process that was not scheduled for a while has a backlog that it soon works off, and
 * dropping it would only harm calls.
 */
const MAX_SPENT_MS = 200;
/** Handling a packet never takes this long. In a longer step the machine ran other processes, whose time does not count. */
const MAX_STEP_MS = 5;

export class EventLoopBudget {
  readonly #afterPackets: (run: () => void) => void;
  #spentMs = 0;
  /** When the previous packet was received; null before the first. */
  #lastMs: number | null = null;
  readonly #reset = () => {
    this.#lastMs = null;
    this.#spentMs = 0;
  };

  /** `afterPackets` calls its argument once the event loop has run everything else. */
  constructor(afterPackets: (run: () => void) => void = setImmediate) {
    this.#afterPackets = afterPackets;
  }

  /** Must be called with every packet. Returns true when calls and timers have to run first. */
  isSpent(nowMs: number): boolean {
    if (this.#lastMs === null) this.#afterPackets(this.#reset);
    else this.#spentMs += Math.min(nowMs - this.#lastMs, MAX_STEP_MS);
    this.#lastMs = nowMs;
    return this.#spentMs > MAX_SPENT_MS;
  }
}
