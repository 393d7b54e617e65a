import type { Log } from "./log.ts";
import type { Now } from "./time/clock.ts";

type Stop = (reason: string, deadline: number) => void | Promise<void>;
type Part = { name: string; stop: Stop; handOver: Stop | null };

/**
 * Components start in order and stop in reverse order. A component that fails to stop, or takes too long, does not
 * block the others.
 */
type Lifecycle = {
  /**
   * Registers the function that stops a component that has just started. With `handOver`, the component keeps running
   * after this process has handed over to a newer one.
   */
  started(name: string, stop: Stop, handOver?: Stop): void;
  readonly draining: boolean;
  /** Stops what the newer process does from now on; `stop` stops the rest. `draining` is true afterwards. */
  handOver(reason: string, deadline: number): Promise<void>;
  /** Idempotent: a second call waits for the first. `deadline` is a time in milliseconds. */
  stop(reason: string, deadline: number): Promise<void>;
};

/** The minimum time that every component has to stop, even when earlier ones used up the rest. */
const MIN_STOP_MS = 1_000;

export function createLifecycle(log: Log, now: Now): Lifecycle {
  const parts: Part[] = [];
  let stopping: Promise<void> | null = null;
  let handingOver: Promise<void> | null = null;

  async function stopAll(reason: string, deadline: number): Promise<void> {
    await handingOver;
    for (const { name, stop } of parts.splice(0).reverse()) await stopOne(name, stop, reason, deadline);
  }

  async function handOverAll(reason: string, deadline: number): Promise<void> {
    const remaining: Part[] = [];
    for (const part of parts.splice(0).reverse()) {
      await stopOne(part.name, part.handOver ?? part.stop, reason, deadline);
      if (part.handOver) remaining.unshift(part);
    }
    parts.push(...remaining);
  }

  async function stopOne(name: string, stop: Stop, reason: string, deadline: number): Promise<void> {
    try {
      await withTimeout(Math.max(MIN_STOP_MS, deadline - now()), stop(reason, deadline));
    } catch (error) {
      log.error({ err: error, part: name }, "lifecycle: component did not stop cleanly");
    }
  }

  return {
    started: (name, stop, handOver) => void parts.push({ name, stop, handOver: handOver ?? null }),
    get draining() {
      return stopping !== null || handingOver !== null;
    },
    handOver(reason, deadline) {
      handingOver ??= handOverAll(reason, deadline);
      return handingOver;
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
