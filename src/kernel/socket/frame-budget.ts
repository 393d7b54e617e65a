import type { Now } from "../clock.ts";

/** Past the budget every frame is refused; this many refused in one window, and the socket is closed. */
const FLOOD_FRAMES = 100;

export type Verdict = { kind: "ok" } | { kind: "over"; retryAfterSeconds: number } | { kind: "flood" };

// Said of nearly every frame.
const OK: Verdict = { kind: "ok" };

/** Frames of one socket in a fixed window that starts with its first frame; a large one may count as several. */
export function createFrameBudget(now: Now, limit: number, windowSeconds: number): (cost?: number) => Verdict {
  const windowMs = windowSeconds * 1000;
  let count = 0;
  let endsAt = 0;
  return (cost = 1) => {
    const at = now();
    // Further ahead than a whole window: the clock was set back.
    if (at >= endsAt || endsAt > at + windowMs) {
      count = 0;
      endsAt = at + windowMs;
    }
    count += cost;
    if (count <= limit) return OK;
    if (count >= limit + FLOOD_FRAMES) return { kind: "flood" };
    return { kind: "over", retryAfterSeconds: Math.max(1, Math.ceil((endsAt - at) / 1000)) };
  };
}
