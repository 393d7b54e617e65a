/**
 * Elapsed milliseconds for leases, never less than the real time. The monotonic clock stands still while a machine is
 * suspended, and the wall clock can be set back; the clock that has advanced further since the last call is used.
 */
export function createElapsed(
  monotonic: () => number = () => performance.now(),
  wall: () => number = Date.now,
): () => number {
  let elapsed = 0;
  let last = { monotonic: monotonic(), wall: wall() };
  return () => {
    const at = { monotonic: monotonic(), wall: wall() };
    elapsed += Math.max(0, at.monotonic - last.monotonic, at.wall - last.wall);
    last = at;
    return elapsed;
  };
}
