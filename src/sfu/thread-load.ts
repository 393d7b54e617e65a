import { readFileSync } from "node:fs";

/** A shorter time gives no meaningful figure, because reading the load is work itself. */
const LEAST_MS = 500;

/**
 * How busy the calling thread is, in percent since the last call: the time that it ran, and the time that it waited for a processor,
 * as its packets did. Returns null at first and where the system has no such figures, and the same result within `leastMs`.
 */
export function threadLoad(now: () => number, leastMs = LEAST_MS): () => number | null {
  let before: { atMs: number; nanos: number } | null = null;
  let percent: number | null = null;
  return () => {
    const atMs = now();
    if (before && atMs - before.atMs < leastMs) return percent;
    const nanos = wantedNanos();
    if (nanos === null) return null;
    if (before) percent = Math.min(100, (nanos - before.nanos) / ((atMs - before.atMs) * 10_000));
    before = { atMs, nanos };
    return percent;
  };
}

/** Linux counts both times for every thread. */
function wantedNanos(): number | null {
  try {
    const [ran, waited] = readFileSync("/proc/thread-self/schedstat", "utf8").split(" ");
    return Number(ran) + Number(waited);
  } catch {
    return null;
  }
}
