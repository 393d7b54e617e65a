import type { Rest } from "../rest.ts";

type Event = { type: string; timestamp: string; data?: Record<string, unknown> };

const PATH = "/v1/telemetry/events";
const FLUSH_MS = 2_000;
const MAX_QUEUED = 50;
/**
 * A request that starts while the network is gone may wait for its connection long after the network is back, and in
 * Firefox all other requests to the server wait with it.
 */
const REQUEST_TIMEOUT_MS = 5_000;

const OFFLINE: ReadonlySet<string | undefined> = new Set(["network", "cancelled"]);

/** Reports events of this connection to the server for its timeline. It never blocks and never fails. */
export class Telemetry {
  readonly #queue: Event[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;
  #isFlushing = false;

  constructor(
    readonly rest: Rest,
    readonly connectionId: string,
    readonly enabled: boolean,
  ) {}

  record(type: string, data?: Record<string, unknown>): void {
    if (!this.enabled || this.#closed || this.#queue.length >= MAX_QUEUED) return;
    this.#queue.push({ type, timestamp: new Date().toISOString(), ...(data === undefined ? {} : { data }) });
    this.#timer ??= setTimeout(this.#onTimer, FLUSH_MS);
  }

  /** Sends the remaining events in the background, even while the page is being closed. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    void this.#flush();
  }

  readonly #onTimer = (): void => {
    // Only one flush runs at a time, because a failed event has to be sent before the next.
    this.#timer = this.#isFlushing ? setTimeout(this.#onTimer, FLUSH_MS) : undefined;
    if (!this.#isFlushing) void this.#flush();
  };

  async #flush(): Promise<void> {
    this.#isFlushing = true;
    for (let event = this.#queue[0]; event; event = this.#queue[0]) {
      try {
        await this.#post(event);
      } catch (error) {
        // Events are kept for the next flush while offline; a refused event is dropped.
        if (OFFLINE.has((error as { reason?: string }).reason)) break;
      }
      if (this.#queue[0] === event) this.#queue.shift();
    }
    this.#isFlushing = false;
  }

  async #post(event: Event): Promise<void> {
    const attempt = new AbortController();
    const timer = setTimeout(() => attempt.abort(), REQUEST_TIMEOUT_MS);
    const options = { keepalive: true, signal: attempt.signal };
    try {
      await this.rest.call("POST", PATH, { connectionId: this.connectionId, ...event }, options);
    } finally {
      clearTimeout(timer);
    }
  }
}
