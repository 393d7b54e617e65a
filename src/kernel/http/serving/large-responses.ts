/** What is handed to the network in one turn of the loop takes less than a millisecond, whoever asks for it. */
const BYTES_PER_TURN = 2 * 1024 * 1024;
/** Those are sent at once. */
const SMALL_BYTES = 64 * 1024;

/** When an answer of so many bytes may begin: null is now. Who has gone meanwhile, as `signal` tells, is not waited for. */
export type LargeResponses = (bytes: number, asker: { signal: AbortSignal }) => Promise<void> | null;

/**
 * Large answers begin a few at a time. Hundreds who ask for a megabyte in the same moment would otherwise be one turn of
 * the loop, in which nobody else is heard.
 */
export function createLargeResponses(afterTurn: (run: () => void) => unknown = setImmediate): LargeResponses {
  const waiting = new Set<{ bytes: number; begin: () => void }>();
  let left = BYTES_PER_TURN;
  let scheduled = false;

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    afterTurn(nextTurn);
  }

  function nextTurn(): void {
    scheduled = false;
    left = BYTES_PER_TURN;
    for (const next of waiting) {
      if (left <= 0) break;
      waiting.delete(next);
      left -= next.bytes;
      next.begin();
    }
    if (left < BYTES_PER_TURN) schedule();
  }

  function wait(bytes: number, { signal }: { signal: AbortSignal }): Promise<void> {
    return new Promise((begin) => {
      const one = { bytes, begin };
      waiting.add(one);
      // What it is answered then goes nowhere, and costs nothing: those who hang up faster than they are served must not pile up.
      const leave = () => waiting.delete(one) && begin();
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  return (bytes, asker) => {
    if (bytes < SMALL_BYTES) return null;
    schedule();
    if (asker.signal.aborted) return null;
    if (waiting.size > 0 || left <= 0) return wait(bytes, asker);
    left -= bytes;
    return null;
  };
}
