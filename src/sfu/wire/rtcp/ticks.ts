/** Times in 32 bits, for tables of thousands of packets: sixteenths of a millisecond, which wrap after three days. */

const TICKS_PER_MS = 16;

export function ticksOf(ms: number): number {
  return Math.floor(ms * TICKS_PER_MS) | 0;
}

/** The time of ticks that lie within a day of `nowMs`. */
export function msOf(ticks: number, nowMs: number): number {
  const now = Math.floor(nowMs * TICKS_PER_MS);
  return (now - (((now | 0) - ticks) | 0)) / TICKS_PER_MS;
}
