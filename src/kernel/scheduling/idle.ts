/** Work that runs after a burst of activity, and the collection of the garbage that bursts leave in the heap. */
import { edenGC, fullGC, heapSize } from "bun:jsc";
import type { Log } from "../log.ts";
import type { Timers } from "../time/timers.ts";

export type IdleThresholds = {
  /** The task is not worthwhile after fewer events. */
  minEvents: number;
  checkEveryMs: number;
  /** The maximum number of events between two checks that counts as idle. */
  maxEvents: number;
  /** A rate up to this share of the burst's highest rate is idle too: a busy server has more background activity. */
  shareOfPeak?: number;
};

export type IdleWatch = {
  activity(): void;
  stop(): void;
};

/**
 * Runs the task when at least `minEvents` events have occurred and their rate has dropped. If the task throws, it is
 * tried again after the next burst.
 */
export function onIdle(
  { minEvents, checkEveryMs, maxEvents, shareOfPeak = 0 }: IdleThresholds,
  timers: Timers,
  task: () => void,
  onError: (error: unknown) => void,
): IdleWatch {
  let count = 0;
  let cancel: (() => void) | null = null;

  function wait(peak = 0): void {
    const before = count;
    cancel = timers.after(checkEveryMs, () => {
      cancel = null;
      const events = count - before;
      if (events > Math.max(maxEvents, peak * shareOfPeak)) return wait(Math.max(peak, events));
      count = 0;
      try {
        task();
      } catch (error) {
        onError(error);
      }
    });
  }

  return {
    activity() {
      count++;
      if (count >= minEvents && cancel === null) wait();
    },
    stop() {
      cancel?.();
      cancel = null;
    },
  };
}

/** A full collection blocks the thread for some fifty milliseconds, which smaller gains do not justify. */
const MIN_GAIN = { factor: 1.1, bytes: 1_048_576 };
/**
 * Memory that survives a collection may be in use permanently, or until a burst ends that only paused. The expected
 * size therefore grows by this factor at most with each collection.
 */
const MAX_GROWTH = 1.03;

type Heap = { bytes(): number; collectYoung(): void; collect(): void };
const OWN_HEAP: Heap = { bytes: heapSize, collectYoung: edenGC, collect: fullGC };

/**
 * Returns a function that collects the heap of the calling thread if that may free much. The engine treats objects that
 * survive a collection or two as long-lived and examines them again only after much further growth, which can take
 * minutes after a burst. The young generation is collected first, at little cost, because it would hide the size of the
 * old generation.
 */
export function createIdleCollector(heap: Heap = OWN_HEAP): () => void {
  let expected = 0;
  return () => {
    heap.collectYoung();
    if (heap.bytes() < expected * MIN_GAIN.factor + MIN_GAIN.bytes) return;
    heap.collect();
    expected = Math.min(heap.bytes(), expected === 0 ? Number.POSITIVE_INFINITY : expected * MAX_GROWTH);
  };
}

/**
 * Fifty calls without joins and leaves commit about ten times a second, and after an attack webhooks are delivered again: a burst is
 * over when the rate has halved.
 */
const AFTER_BURST: IdleThresholds = { minEvents: 500, checkEveryMs: 15_000, maxEvents: 250, shareOfPeak: 1 / 2 };

export type IdleTasks = IdleWatch & {
  /** Adds a task that clears caches; the heap is collected after all tasks. */
  add(task: () => void): void;
};

/** Frees memory once a burst of commits is over. */
export function createIdleTasks({ timers, log }: { timers: Timers; log: Log }): IdleTasks {
  const tasks: (() => void)[] = [];
  const collect = createIdleCollector();
  const run = (task: () => void) => {
    try {
      task();
    } catch (err) {
      log.warn({ err }, "idle: task failed");
    }
  };
  const runAll = () => [...tasks, collect].forEach(run);
  return { ...onIdle(AFTER_BURST, timers, runAll, () => {}), add: (task) => void tasks.push(task) };
}
