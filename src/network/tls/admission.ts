import type { Now } from "../../kernel/time/clock.ts";
import { CountByHolder } from "../turn/quota.ts";

export type AdmissionLimits = {
  /** A client has this long for the handshake and its first byte. */
  patienceMs: number;
  /** Connections that have said nothing yet: of one address, and in all. */
  waitingPerAddress: number;
  waiting: number;
  /** Handshakes of one address: a second, and at once. */
  handshakesPerSecond: number;
  handshakeBurst: number;
};

export const ADMISSION_LIMITS: AdmissionLimits = {
  patienceMs: 10_000,
  waitingPerAddress: 512,
  waiting: 4_096,
  // A whole office behind one address may arrive at once; a handshake costs a third of a millisecond.
  handshakesPerSecond: 200,
  handshakeBurst: 1_000,
};

const MAX_BUCKETS = 10_000;

type Newcomer = { holder: string; deadlineMs: number; close(): void };

/** Who may come in, and how long it may stay without a word. */
export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #holderOf: (address: string) => string;
  readonly #now: Now;
  /** Oldest first. */
  readonly #waiting = new Set<Newcomer>();
  readonly #perHolder = new CountByHolder();
  readonly #buckets = new Map<string, { tokens: number; atMs: number }>();
  refused = 0;
  late = 0;

  constructor(limits: AdmissionLimits, holderOf: (address: string) => string, now: Now) {
    this.#limits = limits;
    this.#holderOf = holderOf;
    this.#now = now;
  }

  get waiting(): number {
    return this.#waiting.size;
  }

  /** Null when it is one too many. Otherwise what to call once it has spoken, or gone. */
  admit(address: string, close: () => void): (() => void) | null {
    const holder = this.#holderOf(address);
    if (this.#perHolder.of(holder) >= this.#limits.waitingPerAddress || !this.#takeToken(holder)) {
      this.refused++;
      return null;
    }
    return this.await(holder, close);
  }

  /** For one that was admitted before, and is now to speak again. */
  await(holder: string, close: () => void): () => void {
    // The one that has been silent for longest makes room.
    if (this.#waiting.size >= this.#limits.waiting) this.#closeOldest();
    const newcomer: Newcomer = { holder, deadlineMs: this.#now() + this.#limits.patienceMs, close };
    this.#waiting.add(newcomer);
    this.#perHolder.add(holder);
    return () => this.#settled(newcomer);
  }

  /** Closes those whose time is over. */
  sweep(): void {
    const nowMs = this.#now();
    for (const newcomer of this.#waiting) {
      if (newcomer.deadlineMs > nowMs) break;
      this.late++;
      this.#settled(newcomer);
      newcomer.close();
    }
    if (this.#buckets.size > MAX_BUCKETS) this.#buckets.clear();
  }

  #settled(newcomer: Newcomer): void {
    if (this.#waiting.delete(newcomer)) this.#perHolder.remove(newcomer.holder);
  }

  #closeOldest(): void {
    for (const newcomer of this.#waiting) {
      this.late++;
      this.#settled(newcomer);
      newcomer.close();
      return;
    }
  }

  #takeToken(holder: string): boolean {
    const { handshakesPerSecond, handshakeBurst } = this.#limits;
    const nowMs = this.#now();
    const bucket = this.#buckets.get(holder) ?? { tokens: handshakeBurst, atMs: nowMs };
    const earned = (Math.max(0, nowMs - bucket.atMs) / 1_000) * handshakesPerSecond;
    bucket.tokens = Math.min(handshakeBurst, bucket.tokens + earned);
    bucket.atMs = nowMs;
    this.#buckets.set(holder, bucket);
    if (bucket.tokens < 1) return false;
    bucket.tokens--;
    return true;
  }
}
