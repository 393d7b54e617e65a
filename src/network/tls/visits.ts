/** The connections that are carried to the HTTP server: how many there are, and what they leave behind. */
import { type IdleThresholds, type IdleWatch, onIdle } from "../../kernel/scheduling/idle.ts";
import type { Timers } from "../../kernel/time/timers.ts";
import type { ConnectionHandler } from "./http-forwarding.ts";

/** Of those who come and go. */
const AFTER_A_STORM: IdleThresholds = { minEvents: 500, checkEveryMs: 2_000, maxEvents: 20 };

export class HttpConnections {
  /** Now. */
  open = 0;
  readonly #storm: IdleWatch;

  /** What handshakes and first requests took is collected once few come or go any more. */
  constructor(timers: Timers, collect: () => void, onError: (error: unknown) => void) {
    this.#storm = onIdle(AFTER_A_STORM, timers, collect, onError);
  }

  begin(carrier: ConnectionHandler): ConnectionHandler {
    this.open++;
    this.#storm.activity();
    return new ClosedOnce(carrier, this.#ended);
  }

  readonly #ended = () => {
    this.open--;
    this.#storm.activity();
  };
}

/** TLS may report the end of a connection more than once. */
export class ClosedOnce implements ConnectionHandler {
  #closed: (() => void) | null;

  constructor(
    private readonly carrier: ConnectionHandler,
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
