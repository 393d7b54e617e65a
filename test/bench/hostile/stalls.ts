type Stall = { atMs: number; tookMs: number };

const EVERY_MS = 2;

/**
 * Turns of this thread's loop: how late a timer is that should come every two milliseconds. `stalls` are those in which
 * nobody else was heard for long, from when to when by `performance.now()`, the longest first; `late` is how late each was
 * since it was asked for last.
 */
export function watchTurns(overMs = 40): { stalls(): Stall[]; late(): number[] } {
  const stalls: Stall[] = [];
  let late: number[] = [];
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    const tookMs = now - last;
    late.push(Math.max(0, tookMs - EVERY_MS));
    if (tookMs > overMs) stalls.push({ atMs: Math.round(last), tookMs: Math.round(tookMs) });
    last = now;
  }, EVERY_MS);
  return {
    stalls: () => stalls.sort((a, b) => b.tookMs - a.tookMs).slice(0, 100),
    late() {
      const told = late;
      late = [];
      return told;
    },
  };
}
