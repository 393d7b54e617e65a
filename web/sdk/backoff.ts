import { onWake } from "./wake.ts";

export type BackoffOptions = { firstMs: number; maxMs: number };

/** Exponential backoff with jitter, so that clients that lost their connection together do not all return together. */
export class Backoff {
  #attempt = 0;

  constructor(readonly options: BackoffOptions = { firstMs: 250, maxMs: 5_000 }) {}

  next(): number {
    const { firstMs, maxMs } = this.options;
    const ceiling = Math.min(maxMs, firstMs * 2 ** this.#attempt);
    this.#attempt += 1;
    return ceiling / 2 + (Math.random() * ceiling) / 2;
  }

  reset(): void {
    this.#attempt = 0;
  }
}

/** Waits for `ms`, but ends early when the network or the page comes back, or when `signal` aborts. */
export function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) return resolve();
    const finish = () => {
      clearTimeout(timer);
      stopListening();
      signal.removeEventListener("abort", finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    const stopListening = onWake(finish);
    signal.addEventListener("abort", finish);
  });
}
