import { Backoff, pause } from "./backoff.ts";

/** A lost packet is sent again after one second: two of them may be lost. */
const PROBE_MS = 3_000;
const PAUSES = { firstMs: 250, maxMs: 1_000 };
/**
 * After so long without an answer a socket is tried all the same: not every page may ask, and not every network lets it. Twice as
 * long the next time, and rarely where requests are known to come through.
 */
const PATIENCE_MS = 12_000;
const MOST_PATIENCE_MS = 60_000;

/**
 * Whether the server can be reached, before a socket is opened again. Firefox opens one socket to a host at a time, and after
 * each that failed it waits longer before it tries the next, for all pages together; requests it never holds back. So while a
 * network is gone requests are what fails.
 */
export class Reach {
  readonly #url: string;
  #isOfUse: boolean;
  #patienceMs = PATIENCE_MS;
  /** A socket is tried although no request came through. */
  #doubts = false;

  constructor(endpoint: string) {
    // Nobody else holds sockets back, and a request may wait on a connection that died with an address.
    this.#isOfUse = "mozInnerScreenX" in globalThis && typeof fetch !== "undefined";
    this.#url = `${endpoint.replace(/^ws/, "http").replace(/^(https?:\/\/[^/?#]*).*$/s, "$1")}/healthz`;
  }

  /** Resolves as soon as a socket is worth a try. */
  async wait(signal: AbortSignal): Promise<void> {
    this.#doubts = false;
    const backoff = new Backoff(PAUSES);
    const startedAt = Date.now();
    while (this.#isOfUse && !signal.aborted && !(await this.#answers(signal))) {
      if (Date.now() - startedAt > this.#patienceMs) {
        this.#patienceMs = Math.min(MOST_PATIENCE_MS, this.#patienceMs * 2);
        this.#doubts = true;
        return;
      }
      await pause(backoff.next(), signal);
    }
  }

  /** A socket has opened: where requests still fail, a policy or a filter holds them back, and they tell nothing. */
  async opened(signal: AbortSignal): Promise<void> {
    if (this.#doubts) this.#isOfUse = await this.#answers(signal);
    this.#doubts = false;
  }

  /** Any answer will do, which is why it need not be readable. */
  async #answers(signal: AbortSignal): Promise<boolean> {
    const attempt = new AbortController();
    const abort = () => attempt.abort();
    const timer = setTimeout(abort, PROBE_MS);
    signal.addEventListener("abort", abort);
    try {
      await fetch(this.#url, {
        method: "HEAD",
        mode: "no-cors",
        credentials: "omit",
        cache: "no-store",
        referrerPolicy: "no-referrer",
        signal: attempt.signal,
      });
      this.#patienceMs = MOST_PATIENCE_MS;
      return true;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    }
  }
}
