/** How far the clock of another machine is ahead of ours, from answered pings. */

/** Longer than a burst of traffic that delays pings in one direction. */
const KEPT_SAMPLES = 8;

type Ping = { sentAtMs: number; receivedAtMs: number; answeredAtMs: number };

export class ClockOffset {
  #samples: { roundTripMs: number; offsetMs: number }[] = [];

  /** `answeredAtMs` is a time of the other clock. */
  add({ sentAtMs, receivedAtMs, answeredAtMs }: Ping): void {
    const roundTripMs = receivedAtMs - sentAtMs;
    // Our clock was set meanwhile.
    if (roundTripMs < 0) return;
    const offsetMs = answeredAtMs - (sentAtMs + receivedAtMs) / 2;
    this.#samples = [...this.#samples.slice(1 - KEPT_SAMPLES), { roundTripMs, offsetMs }];
  }

  /** The ping with the shortest round trip shows it best, within half of that round trip. 0 before the first answer. */
  get ms(): number {
    const [best] = this.#samples.toSorted((a, b) => a.roundTripMs - b.roundTripMs);
    return best?.offsetMs ?? 0;
  }
}
