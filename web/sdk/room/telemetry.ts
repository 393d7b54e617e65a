import type { Rest } from "../rest.ts";

type Event = { type: string; timestamp: string; data?: Record<string, unknown> };

const PATH = "/v1/telemetry/events";
const FLUSH_MS = 2_000;
const MAX_QUEUED = 50;
/**
 * A request that begins while the network is gone would wait for its connection long after the network is back, ever longer
 * between its tries, and in Firefox everything else that is asked of the server waits with it.
 */
const GIVE_UP_MS = 5_000;

const OFFLINE: ReadonlySet<string | undefined> = new Set(["network", "cancelled"]);

/** What happened to this connection, told to the server so that its timeline is whole. Never waits, never fails. */
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
    this.#timer ??= setTimeout(this.#due, FLUSH_MS);
  }

  /** What is left goes out by itself, also when the page is being closed. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    void this.#flush();
  }

  readonly #due = (): void => {
    // One request at a time: the next may have to follow one that fails.
    this.#timer = this.#isFlushing ? setTimeout(this.#due, FLUSH_MS) : undefined;
    if (!this.#isFlushing) void this.#flush();
  };

  async #flush(): Promise<void> {
    this.#isFlushing = true;
    for (let event = this.#queue[0]; event; event = this.#queue[0]) {
      try {
        await this.#tell(event);
      } catch (error) {
        // Offline: kept for the next flush. Refused: nobody can mend it from here.
        if (OFFLINE.has((error as { reason?: string }).reason)) break;
      }
      if (this.#queue[0] === event) this.#queue.shift();
    }
    this.#isFlushing = false;
  }

  async #tell(event: Event): Promise<void> {
    const attempt = new AbortController();
    const timer = setTimeout(() => attempt.abort(), GIVE_UP_MS);
    const options = { keepalive: true, signal: attempt.signal };
    try {
      await this.rest.call("POST", PATH, { connectionId: this.connectionId, ...event }, options);
    } finally {
      clearTimeout(timer);
    }
  }
}
