import type { Rest } from "../rest.ts";

type Event = { type: string; timestamp: string; data?: Record<string, unknown> };

const PATH = "/v1/telemetry/events";
const FLUSH_MS = 2_000;
const MAX_QUEUED = 50;

/** What happened to this connection, told to the server so that its timeline is whole. Never waits, never fails. */
export class Telemetry {
  readonly #queue: Event[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;
  #closed = false;

  constructor(
    readonly rest: Rest,
    readonly connectionId: string,
    readonly enabled: boolean,
  ) {}

  record(type: string, data?: Record<string, unknown>): void {
    if (!this.enabled || this.#closed || this.#queue.length >= MAX_QUEUED) return;
    this.#queue.push({ type, timestamp: new Date().toISOString(), ...(data === undefined ? {} : { data }) });
    this.#timer ??= setTimeout(() => void this.#flush(), FLUSH_MS);
  }

  /** What is left goes out by itself, also when the page is being closed. */
  close(): void {
    this.#closed = true;
    clearTimeout(this.#timer);
    void this.#flush();
  }

  async #flush(): Promise<void> {
    this.#timer = undefined;
    while (this.#queue.length > 0) {
      const [event] = this.#queue;
      try {
        await this.rest.call("POST", PATH, { connectionId: this.connectionId, ...event }, { keepalive: true });
        this.#queue.shift();
      } catch (error) {
        // Offline: kept for the next flush. Refused: nobody can mend it from here.
        if ((error as { reason?: string }).reason !== "network") this.#queue.shift();
        else return;
      }
    }
  }
}
