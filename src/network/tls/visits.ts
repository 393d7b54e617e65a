/** The connections that are carried to the HTTP server: how many there are, and what they leave behind. */
import { type Calm, type CalmWatch, whenCalm } from "../../kernel/calm.ts";
import type { Timers } from "../../kernel/timers.ts";
import type { Carrier } from "./carrier.ts";

/** Of those who come and go. */
const AFTER_A_STORM: Calm = { enough: 500, lookEveryMs: 2_000, atMost: 20 };

export class Visits {
  /** Now. */
  open = 0;
  readonly #storm: CalmWatch;

  /** What handshakes and first requests took is collected once few come or go any more. */
  constructor(timers: Timers, collect: () => void, onError: (error: unknown) => void) {
    this.#storm = whenCalm(AFTER_A_STORM, timers, collect, onError);
  }

  begin(carrier: Carrier): Carrier {
    this.open++;
    this.#storm.happened();
    return new OnceClosed(carrier, this.#ended);
  }

  readonly #ended = () => {
    this.open--;
    this.#storm.happened();
  };
}

/** TLS may report the end of a connection more than once. */
export class OnceClosed implements Carrier {
  #closed: (() => void) | null;

  constructor(
    private readonly carrier: Carrier,
    closed: () => void,
  ) {
    this.#closed = closed;
  }

  received(data: Buffer): void {
    this.carrier.received(data);
  }

  drained(): void {
    this.carrier.drained();
  }

  closed(): void {
    if (this.#closed === null) return;
    this.#closed();
    this.#closed = null;
    this.carrier.closed();
  }
}
