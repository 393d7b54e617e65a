import type { Now } from "../../kernel/time/clock.ts";

export class RelayBudget {
  readonly #perMs: number;
  readonly #burst: number;
  #left: number;
  #atMs: number;

  constructor(bitsPerSecond: number, nowMs: number) {
    this.#perMs = bitsPerSecond / 8_000;
    // A burst of half a second lets a keyframe through at once.
    this.#burst = bitsPerSecond / 16;
    this.#left = this.#burst;
    this.#atMs = nowMs;
  }

  take(bytes: number, nowMs: number): boolean {
    const elapsedMs = Math.max(0, nowMs - this.#atMs);
    this.#left = Math.min(this.#burst, this.#left + elapsedMs * this.#perMs);
    this.#atMs = nowMs;
    if (this.#left < bytes) return false;
    this.#left -= bytes;
    return true;
  }
}

export class CountByHolder {
  readonly #counts = new Map<string, number>();

  of(holder: string): number {
    return this.#counts.get(holder) ?? 0;
  }

  add(holder: string): void {
    this.#counts.set(holder, this.of(holder) + 1);
  }

  remove(holder: string): void {
    const left = this.of(holder) - 1;
    if (left > 0) this.#counts.set(holder, left);
    else this.#counts.delete(holder);
  }
}

const CHALLENGES_PER_SECOND = 5;
const MAX_ADDRESSES = 10_000;

/** The source address of a UDP request may be spoofed, so each address gets only a few responses per second. */
export class ChallengeLimit {
  #second = 0;
  readonly #sent = new Map<string, number>();

  constructor(private readonly now: Now) {}

  allows(address: string): boolean {
    const second = Math.floor(this.now() / 1_000);
    if (second !== this.#second) {
      this.#second = second;
      this.#sent.clear();
    }
    const count = this.#sent.get(address) ?? 0;
    if (count >= CHALLENGES_PER_SECOND || (count === 0 && this.#sent.size >= MAX_ADDRESSES)) return false;
    this.#sent.set(address, count + 1);
    return true;
  }
}
