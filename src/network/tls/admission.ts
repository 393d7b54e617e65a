import type { Now } from "../../kernel/time/clock.ts";
import { CountByHolder } from "../turn/quota.ts";

export type AdmissionLimits = {
  patienceMs: number;
  waitingPerAddress: number;
  waiting: number;
  handshakesPerSecond: number;
  handshakeBurst: number;
};

export const ADMISSION_LIMITS: AdmissionLimits = {
  patienceMs: 10_000,
  waitingPerAddress: 512,
  waiting: 4_096,
  // A whole office behind one IP address may connect at the same time; a handshake costs a third of a millisecond.
  handshakesPerSecond: 200,
  handshakeBurst: 1_000,
};

const MAX_BUCKETS = 10_000;

type WaitingConnection = { holder: string; deadlineMs: number; close(): void };

/** Limits new connections and closes those that send nothing in time. */
export class Admission {
  readonly #limits: AdmissionLimits;
  readonly #holderOf: (address: string) => string;
  readonly #now: Now;
  readonly #waiting = new Set<WaitingConnection>();
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

  /**
   * Null when the IP address has too many connections. Otherwise the caller calls the result when bytes arrive or the
   * socket closes.
   */
  admit(address: string, close: () => void): (() => void) | null {
    const holder = this.#holderOf(address);
    if (this.#perHolder.of(holder) >= this.#limits.waitingPerAddress || !this.#takeToken(holder)) {
      this.refused++;
      return null;
    }
    return this.await(holder, close);
  }

  /** Lets a connection wait for its first bytes without counting it against an IP address. */
  await(holder: string, close: () => void): () => void {
    if (this.#waiting.size >= this.#limits.waiting) {
      // The connection that has waited longest is closed to make room.
      const [oldest] = this.#waiting;
      if (oldest) this.#closeLate(oldest);
    }
    const connection: WaitingConnection = { holder, deadlineMs: this.#now() + this.#limits.patienceMs, close };
    this.#waiting.add(connection);
    this.#perHolder.add(holder);
    return () => this.#settled(connection);
  }

  sweep(): void {
    const nowMs = this.#now();
    for (const connection of this.#waiting) {
      if (connection.deadlineMs > nowMs) break;
      this.#closeLate(connection);
    }
    if (this.#buckets.size > MAX_BUCKETS) this.#buckets.clear();
  }

  #settled(connection: WaitingConnection): void {
    if (this.#waiting.delete(connection)) this.#perHolder.remove(connection.holder);
  }

  #closeLate(connection: WaitingConnection): void {
    this.late++;
    this.#settled(connection);
    connection.close();
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
