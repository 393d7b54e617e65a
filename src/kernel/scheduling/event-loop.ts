import type { Metrics } from "../metrics.ts";

const EVERY_MS = 500;

/** Measures how late a timer fires: all other work on the main thread waited as long. */
export function measureEventLoop(metrics: Metrics): () => void {
  let worstMs = 0;
  let dueAt = performance.now() + EVERY_MS;
  const look = () => {
    const nowMs = performance.now();
    worstMs = Math.max(worstMs, nowMs - dueAt);
    dueAt = nowMs + EVERY_MS;
  };
  const timer = setInterval(look, EVERY_MS);
  timer.unref();
  metrics.gaugeOf(
    "stoa_event_loop_delay_seconds",
    "The longest delay of the main thread since the last scrape.",
    () => {
      // While a thread is blocked, its last measurement is missing, so the current delay is added.
      const delay = Math.max(worstMs, performance.now() - dueAt) / 1_000;
      worstMs = 0;
      return Math.max(0, delay);
    },
  );
  return () => clearInterval(timer);
}
