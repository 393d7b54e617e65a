import { Backoff, pause } from "./backoff.ts";

/** TCP retransmits a lost packet after about one second; this allows for two losses. */
const PROBE_MS = 3_000;
const RETRY = { firstMs: 250, maxMs: 1_000 };
/**
 * After this long without a response a socket is opened anyway, because a page's policy or a network may block the
 * requests. The time doubles on each failure and is at its maximum once a request has succeeded.
 */
const GIVE_UP_MS = 12_000;
const MAX_GIVE_UP_MS = 60_000;

/**
 * Checks with HTTP requests whether the server is reachable before a socket is opened again. Firefox delays the next
 * WebSocket to a host longer after each one that fails, for all pages together, but it never delays requests. So while
 * the network is gone, only requests may fail.
 */
export class Reachability {
  readonly #url: string;
  #isUsable: boolean;
  #giveUpAfterMs = GIVE_UP_MS;
  /** A socket is being opened although no request has succeeded. */
  #isUnconfirmed = false;

  constructor(endpoint: string) {
    // Only Firefox delays sockets. In other browsers a request may hang on a connection that died with its address.
    this.#isUsable = "mozInnerScreenX" in globalThis && typeof fetch !== "undefined";
    this.#url = `${endpoint.replace(/^ws/, "http").replace(/^(https?:\/\/[^/?#]*).*$/s, "$1")}/healthz`;
  }

  /** Resolves when a socket should be opened. */
  async wait(signal: AbortSignal): Promise<void> {
    this.#isUnconfirmed = false;
    const backoff = new Backoff(RETRY);
    const startedAt = Date.now();
    while (this.#isUsable && !signal.aborted && !(await this.#responds(signal))) {
      if (Date.now() - startedAt > this.#giveUpAfterMs) {
        this.#giveUpAfterMs = Math.min(MAX_GIVE_UP_MS, this.#giveUpAfterMs * 2);
        this.#isUnconfirmed = true;
        return;
      }
      await pause(backoff.next(), signal);
    }
  }

  /** Called when a socket has opened. If requests still fail, a policy or a filter blocks them and they prove nothing. */
  async opened(signal: AbortSignal): Promise<void> {
    if (this.#isUnconfirmed) this.#isUsable = await this.#responds(signal);
    this.#isUnconfirmed = false;
  }

  /** Any response proves reachability, so an opaque one is enough. */
  async #responds(signal: AbortSignal): Promise<boolean> {
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
      this.#giveUpAfterMs = MAX_GIVE_UP_MS;
      return true;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
      signal.removeEventListener("abort", abort);
    }
  }
}
