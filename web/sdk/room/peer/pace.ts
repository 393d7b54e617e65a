import type { JoinAck } from "../../../../src/protocol/signaling.ts";

const GATHER_MS = 40;

/**
 * How long to wait before telling the server of a change. At first hardly at all; but scrolling and resizing make
 * changes without end, and the server takes only so many frames in a window.
 */
export class UpdateThrottle {
  #windowMs = 60_000;
  #frames = 100;
  #spentAt: number[] = [];

  setLimits({ messagesPerWindow, windowSeconds }: JoinAck["limits"]): void {
    this.#frames = messagesPerWindow;
    this.#windowMs = windowSeconds * 1000;
  }

  spent(now: number): void {
    this.#spentAt.push(now);
  }

  /** A quarter of the budget at once, then no more than half of it spread evenly; the rest is for everything else. */
  delayMs(now: number): number {
    this.#spentAt = this.#spentAt.filter((at) => at > now - this.#windowMs);
    if (this.#spentAt.length < this.#frames / 4) return GATHER_MS;
    const last = this.#spentAt.at(-1) ?? 0;
    return Math.max(GATHER_MS, last + (2 * this.#windowMs) / this.#frames - now);
  }
}
