/** What is handed to the network in one turn of the loop takes less than a millisecond, whoever asks for it. */
const BYTES_PER_TURN = 2 * 1024 * 1024;
/** Those are sent at once. */
const SMALL_BYTES = 64 * 1024;

/** When an answer of so many bytes may begin: null is now. */
export type LargeAnswers = (bytes: number) => Promise<void> | null;

/**
 * Large answers begin a few at a time. Hundreds who ask for a megabyte in the same moment would otherwise be one turn of
 * the loop, in which nobody else is heard.
 */
export function createLargeAnswers(afterTurn: (run: () => void) => unknown = setImmediate): LargeAnswers {
  const waiting: { bytes: number; begin: () => void }[] = [];
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
    while (left > 0) {
      const next = waiting.shift();
      if (!next) break;
      left -= next.bytes;
      next.begin();
    }
    if (left < BYTES_PER_TURN) schedule();
  }

  return (bytes) => {
    if (bytes < SMALL_BYTES) return null;
    schedule();
    if (waiting.length > 0 || left <= 0) return new Promise((begin) => waiting.push({ bytes, begin }));
    left -= bytes;
    return null;
  };
}
