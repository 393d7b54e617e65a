import { onWake } from "./wake.ts";

export type BackoffOptions = { firstMs: number; maxMs: number };

/** Delays that double up to a limit, each drawn from its upper half: clients that fell together do not return together. */
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

/** Waits, but no longer than until the network or the page wakes up, or `signal` gives up. */
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
