import type { Timers } from "../../src/kernel/time/timers.ts";

export type FakeClock = Timers & {
  now: () => number;
  advance(ms: number): void;
  set(at: number): void;
  pending(): number;
};

/** Time moves only when the test advances it; timers that become due run in order, at their time. */
export function fakeClock(start = Date.parse("2026-03-01T12:00:00.000Z")): FakeClock {
  let at = start;
  const waiting = new Set<{ due: number; run: () => void }>();

  function set(to: number): void {
    while (true) {
      const next = [...waiting].filter(({ due }) => due <= to).sort((a, b) => a.due - b.due)[0];
      if (!next) break;
      waiting.delete(next);
      at = Math.max(at, next.due);
      next.run();
    }
    at = to;
  }

  return {
    now: () => at,
    set,
    /** The number of active timers. */
    pending: () => waiting.size,
    advance: (ms) => set(at + ms),
    after(ms, run) {
      const timer = { due: at + ms, run };
      waiting.add(timer);
      return () => void waiting.delete(timer);
    },
  };
}
