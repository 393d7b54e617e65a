/** Writing this much to the network takes less than a millisecond of an event-loop tick. */
const BYTES_PER_TICK = 2 * 1024 * 1024;
/** Smaller responses never wait. */
const SMALL_BYTES = 64 * 1024;

/** When a response of this size may begin; null means now. The wait ends early when `signal` aborts. */
export type LargeResponses = (bytes: number, request: { signal: AbortSignal }) => Promise<void> | null;

/**
 * Large responses begin a few at a time. Hundreds of requests for a megabyte at the same moment would otherwise block
 * the event loop.
 */
export function createLargeResponses(nextTick: (run: () => void) => unknown = setImmediate): LargeResponses {
  const waiting = new Set<{ bytes: number; begin: () => void }>();
  let left = BYTES_PER_TICK;
  let scheduled = false;

  function schedule(): void {
    if (scheduled) return;
    scheduled = true;
    nextTick(startTick);
  }

  function startTick(): void {
    scheduled = false;
    left = BYTES_PER_TICK;
    for (const next of waiting) {
      if (left <= 0) break;
      waiting.delete(next);
      left -= next.bytes;
      next.begin();
    }
    if (left < BYTES_PER_TICK) schedule();
  }

  function wait(bytes: number, { signal }: { signal: AbortSignal }): Promise<void> {
    return new Promise((begin) => {
      const response = { bytes, begin };
      waiting.add(response);
      // Clients that disconnect faster than they are served must not accumulate in the queue; sending to them costs
      // nothing.
      const leave = () => waiting.delete(response) && begin();
      signal.addEventListener("abort", leave, { once: true });
    });
  }

  return (bytes, request) => {
    if (bytes < SMALL_BYTES) return null;
    schedule();
    if (request.signal.aborted) return null;
    if (waiting.size > 0 || left <= 0) return wait(bytes, request);
    left -= bytes;
    return null;
  };
}
