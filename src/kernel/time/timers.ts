import type { Log } from "../log.ts";

/** The timers are injected together with the clock, so that a test can skip to the end of a timeout. */
export type Timers = {
  /** Runs once after `ms`; the returned function cancels it. A timer never keeps the process alive. */
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
 * Runs repeatedly, each run starting only after the previous one has ended. An error of a run is logged, because an
 * unhandled rejection would end the process.
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
        log.error({ err }, "timers: recurring task failed");
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
