import type { Timers } from "../../src/kernel/time/timers.ts";

export type FakeClock = Timers & {
  now: () => number;
  advance(ms: number): void;
  set(at: number): void;
  pending(): number;
};

/** Time that moves only when the test says so; what falls due on the way runs in its order, at its moment. */
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
    /** Timers that wait. */
    pending: () => waiting.size,
    advance: (ms) => set(at + ms),
    after(ms, run) {
      const timer = { due: at + ms, run };
      waiting.add(timer);
      return () => void waiting.delete(timer);
    },
  };
}
