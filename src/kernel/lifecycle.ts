import type { Log } from "./log.ts";
import type { Now } from "./time/clock.ts";

type Part = { name: string; stop: (reason: string, deadline: number) => void | Promise<void> };

/**
 * Components start in order and stop in reverse order. A component that fails to stop, or takes too long, does not
 * block the others.
 */
type Lifecycle = {
  /** Registers the function that stops a component that has just started. */
  started(name: string, stop: Part["stop"]): void;
  readonly draining: boolean;
  /** Idempotent: a second call waits for the first. `deadline` is a time in milliseconds. */
  stop(reason: string, deadline: number): Promise<void>;
};

/** The minimum time that every component has to stop, even when earlier ones used up the rest. */
const MIN_STOP_MS = 1_000;

export function createLifecycle(log: Log, now: Now): Lifecycle {
  const parts: Part[] = [];
  let stopping: Promise<void> | null = null;

  async function stopAll(reason: string, deadline: number): Promise<void> {
    for (const part of parts.reverse()) {
      try {
        await withTimeout(Math.max(MIN_STOP_MS, deadline - now()), part.stop(reason, deadline));
      } catch (error) {
        log.error({ err: error, part: part.name }, "lifecycle: component did not stop cleanly");
      }
    }
  }

  return {
    started: (name, stop) => void parts.push({ name, stop }),
    get draining() {
      return stopping !== null;
    },
    stop(reason, deadline) {
      stopping ??= stopAll(reason, deadline);
      return stopping;
    },
  };
}

async function withTimeout(timeoutMs: number, stopping: void | Promise<void>): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error("it took too long")), timeoutMs);
  try {
    await Promise.race([stopping, late]);
  } finally {
    clearTimeout(timer);
  }
}
