import type { Log } from "./log.ts";
import type { Now } from "./time/clock.ts";

type Part = { name: string; stop: (reason: string, deadline: number) => void | Promise<void> };

/** Parts are started in order and stopped in reverse; one that fails to stop, or takes too long, does not hold up the others. */
type Lifecycle = {
  /** Registers how a part that has just started is stopped again. */
  started(name: string, stop: Part["stop"]): void;
  readonly draining: boolean;
  /** Idempotent: a second call waits for the first. `deadline` is a time in milliseconds. */
  stop(reason: string, deadline: number): Promise<void>;
};

/** What every part has to stop in, however much time those before it took. */
const LEAST_MS = 1_000;

export function createLifecycle(log: Log, now: Now): Lifecycle {
  const parts: Part[] = [];
  let stopping: Promise<void> | null = null;

  async function stopAll(reason: string, deadline: number): Promise<void> {
    for (const part of parts.reverse()) {
      try {
        await within(Math.max(LEAST_MS, deadline - now()), part.stop(reason, deadline));
      } catch (error) {
        log.error({ err: error, part: part.name }, "part did not stop cleanly");
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

async function within(timeoutMs: number, stopping: void | Promise<void>): Promise<void> {
  const { promise: late, reject } = Promise.withResolvers<never>();
  const timer = setTimeout(() => reject(new Error("it takes too long")), timeoutMs);
  try {
    await Promise.race([stopping, late]);
  } finally {
    clearTimeout(timer);
  }
}
