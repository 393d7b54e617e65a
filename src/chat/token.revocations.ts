import type { Now } from "../kernel/clock.ts";

const SWEEP_EVERY_MS = 60_000;

/** Tokens that must not be taken, each for as long as it could be. */
export function createRevocations(now: Now) {
  const until = new Map<string, number>();
  let sweptAt = now();
  return {
    /** How many are kept. */
    get size(): number {
      return until.size;
    },
    has: (tokenId: string) => until.has(tokenId),
    add(tokenId: string, expiresAt: number): void {
      until.set(tokenId, expiresAt);
      if (Math.abs(now() - sweptAt) < SWEEP_EVERY_MS) return;
      sweptAt = now();
      for (const [id, at] of until) if (at <= now()) until.delete(id);
    },
  };
}
