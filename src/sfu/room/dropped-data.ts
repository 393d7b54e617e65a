/** Counts what a sender's messages were refused for, so that it is told; at most once a second, however many there are. */
import type { DataDropReason } from "../../protocol/signaling.ts";

const TOLD_EVERY_MS = 1_000;

export class DroppedData {
  total = 0;
  readonly #untold = new Map<DataDropReason, number>();
  readonly #tell: (messages: number, reason: DataDropReason) => void;
  #toldAtMs = Number.NEGATIVE_INFINITY;

  constructor(tell: (messages: number, reason: DataDropReason) => void) {
    this.#tell = tell;
  }

  add(reason: DataDropReason): void {
    this.total += 1;
    this.#untold.set(reason, (this.#untold.get(reason) ?? 0) + 1);
  }

  tick(nowMs: number): void {
    if (this.#untold.size === 0 || nowMs - this.#toldAtMs < TOLD_EVERY_MS) return;
    this.#toldAtMs = nowMs;
    for (const [reason, messages] of this.#untold) this.#tell(messages, reason);
    this.#untold.clear();
  }
}
