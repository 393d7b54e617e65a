/**
 * Milliseconds that have passed, for leases: never fewer than there were. The steady clock stands still while a machine
 * is suspended, and the wall clock is set back; whichever has moved more since the last look counts.
 */
export function createElapsed(
  steady: () => number = () => performance.now(),
  wall: () => number = Date.now,
): () => number {
  let elapsed = 0;
  let last = { steady: steady(), wall: wall() };
  return () => {
    const at = { steady: steady(), wall: wall() };
    elapsed += Math.max(0, at.steady - last.steady, at.wall - last.wall);
    last = at;
    return elapsed;
  };
}
