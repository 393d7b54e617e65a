/** What is put off until little happens any more, and what is collected then. */
import { edenGC, fullGC, heapSize } from "bun:jsc";
import type { Timers } from "./timers.ts";

export type Calm = {
  /** After fewer the task is not worth its while. */
  enough: number;
  lookEveryMs: number;
  /** As many between two looks are none too many. */
  atMost: number;
  /** Nor are as many as this part of the most that there were: what goes on all the time, beside a storm and after it, may be more. */
  share?: number;
};

export type CalmWatch = {
  /** To be told of each of them. */
  happened(): void;
  stop(): void;
};

/** Does the task once enough has happened, and little happens any more. What it throws is told, and it is tried again later. */
export function whenCalm(
  calm: Calm,
  timers: Timers,
  /** Told of the most that happened between two looks before it got calm; 0 if it was calm at the first. */
  task: (most: number) => void,
  onError: (error: unknown) => void,
): CalmWatch {
  const { share = 0 } = calm;
  let count = 0;
  let cancel: (() => void) | null = null;

  function wait(most = 0): void {
    const before = count;
    cancel = timers.after(calm.lookEveryMs, () => {
      cancel = null;
      const happened = count - before;
      if (happened > Math.max(calm.atMost, most * share)) return wait(Math.max(most, happened));
      count = 0;
      try {
        task(most);
      } catch (error) {
        onError(error);
      }
    });
  }

  return {
    happened() {
      count++;
      if (count >= calm.enough && cancel === null) wait();
    },
    stop() {
      cancel?.();
      cancel = null;
    },
  };
}

export function together(...watches: readonly CalmWatch[]): CalmWatch {
  return {
    happened() {
      for (const watch of watches) watch.happened();
    },
    stop() {
      for (const watch of watches) watch.stop();
    },
  };
}

/** Less than so much more than is known to stay is not worth stopping the thread for, some fifty milliseconds. */
const WORTH = { times: 1.1, bytes: 1_048_576 };
/**
 * More than that was kept: it may be in use for good, or only until a storm is over in whose middle it was calm for a moment.
 * By so much it counts as what stays, each time.
 */
const RISES = 1.03;

/** Of one thread. */
export type Heap = {
  bytes(): number;
  collectYoung(): void;
  collect(): void;
  /** Collects all there is once the thread has nothing to do, and throws compiled code away, which is made again as it is used. */
  shrink(): void;
};
/** Of the thread that asks. */
const OWN_HEAP: Heap = { bytes: heapSize, collectYoung: edenGC, collect: fullGC, shrink: () => Bun.shrink() };

/**
 * For what a storm leaves behind in the heap of a thread. The engine takes what has lived through a collection or two for
 * something that stays, and looks at it again only when much more of it has come up: once the storm is over, that may take
 * minutes. The answer is to be called when it is calm: it collects what there is, if that may be much. What is young is
 * collected first, for little: it says nothing about what the storm left, and would hide how much that is.
 */
export function createLeftovers(heap: Heap = OWN_HEAP): () => void {
  let stays = 0;
  return () => {
    heap.collectYoung();
    if (heap.bytes() < stays * WORTH.times + WORTH.bytes) return;
    heap.collect();
    stays = Math.min(heap.bytes(), stays === 0 ? Number.POSITIVE_INFINITY : stays * RISES);
  };
}

/** What is used again is compiled again, which takes some tenths of a second of a processor. */
const SHRINK_AT_MOST_EVERY_MS = 5 * 60_000;

/**
 * The same for a thread that may start over: after a storm its code goes too, soon or when it is calm the next time. Much of
 * it was made for what only the storm did, and what the engine notes about code lies in small pieces between everything else:
 * few that stay keep many pages. Not for threads that forward packets.
 */
export function createLeftoversAndCode(
  storm: number,
  now: () => number,
  heap: Heap = OWN_HEAP,
): (most: number) => void {
  const collect = createLeftovers(heap);
  let stormed = false;
  let shrunkAt = Number.NEGATIVE_INFINITY;
  return (most) => {
    stormed ||= most >= storm;
    if (!stormed || now() - shrunkAt < SHRINK_AT_MOST_EVERY_MS) return collect();
    stormed = false;
    shrunkAt = now();
    heap.shrink();
  };
}
