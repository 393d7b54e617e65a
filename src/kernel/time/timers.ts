import type { Log } from "../log.ts";

/** Things to do later. Injected with the clock, so that a test can reach the end of a timeout at once. */
export type Timers = {
  /** Runs once after `ms`; the answer cancels it. A timer never keeps the process alive. */
  after(ms: number, run: () => void): () => void;
};

export const systemTimers: Timers = {
  after(ms, run) {
    const timer = setTimeout(run, ms);
    timer.unref();
    return () => clearTimeout(timer);
  },
};

/**
 * Again and again, the next run starting only when the one before is over. A run that fails is logged, and no more:
 * a promise that nobody waits for would take the process down with it.
 */
export function every(
  { timers, log }: { timers: Timers; log: Log },
  ms: number,
  run: () => void | Promise<void>,
): () => void {
  let stopped = false;
  let cancel = () => {};
  const next = () => {
    cancel = timers.after(ms, async () => {
      try {
        await run();
      } catch (err) {
        log.error({ err }, "recurring task failed; it runs again at its next turn");
      }
      if (!stopped) next();
    });
  };
  next();
  return () => {
    stopped = true;
    cancel();
  };
}
