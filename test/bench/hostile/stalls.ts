/** Turns of this thread's loop in which nobody else was heard: from when to when, by `performance.now()`, the longest first. */
export function watchStalls(overMs = 40): () => { atMs: number; tookMs: number }[] {
  const stalls: { atMs: number; tookMs: number }[] = [];
  let last = performance.now();
  setInterval(() => {
    const now = performance.now();
    if (now - last > overMs) stalls.push({ atMs: Math.round(last), tookMs: Math.round(now - last) });
    last = now;
  }, 2);
  return () => stalls.sort((a, b) => b.tookMs - a.tookMs).slice(0, 100);
}
