/**
 * Whether the client is still there. Authentic checks, packets and reports count alike: browsers send checks every few seconds, other
 * clients hardly ever while media flows.
 */

const DISCONNECTED_AFTER_MS = 15_000;
const FAILED_AFTER_MS = 30_000;
/** Applies until the first check. */
const NEVER_REACHED_AFTER_MS = 15_000;

export class Liveness {
  /** The times of the last check and of the last packet; 0 before the first. */
  checkedAtMs = 0;
  mediaAtMs = 0;
  readonly #startedAtMs: number;

  constructor(startedAtMs: number) {
    this.#startedAtMs = startedAtMs;
  }

  silentMs(nowMs: number): number {
    return nowMs - Math.max(this.checkedAtMs, this.mediaAtMs, this.#startedAtMs);
  }

  verdict(nowMs: number): "alive" | "disconnected" | "failed" {
    const silentMs = this.silentMs(nowMs);
    if (silentMs > (this.checkedAtMs === 0 ? NEVER_REACHED_AFTER_MS : FAILED_AFTER_MS)) return "failed";
    return silentMs > DISCONNECTED_AFTER_MS ? "disconnected" : "alive";
  }

  /** Returns whether the client has had enough time to finish its handshake. */
  isOverdue(nowMs: number): boolean {
    return nowMs - this.#startedAtMs > FAILED_AFTER_MS;
  }
}
