import type { Metrics } from "../metrics.ts";

const EVERY_MS = 500;

/** Measures how late a timer fires: everything else on the main thread waited as long. */
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
      // A thread that is blocked until the scrape has not looked yet.
      const delay = Math.max(worstMs, performance.now() - dueAt) / 1_000;
      worstMs = 0;
      return Math.max(0, delay);
    },
  );
  return () => clearInterval(timer);
}
