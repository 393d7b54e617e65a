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
export function whenCalm(calm: Calm, timers: Timers, task: () => void, onError: (error: unknown) => void): CalmWatch {
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
        task();
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
export type Heap = { bytes(): number; collectYoung(): void; collect(): void };
/** Of the thread that asks. */
const OWN_HEAP: Heap = { bytes: heapSize, collectYoung: edenGC, collect: fullGC };

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
