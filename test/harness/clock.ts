export type FakeClock = { now: () => number; advance(ms: number): void; set(at: number): void };

/** Time that moves only when the test says so. */
export function fakeClock(start = Date.parse("2026-03-01T12:00:00.000Z")): FakeClock {
  let at = start;
  return {
    now: () => at,
    advance(ms) {
      at += ms;
    },
    set(to) {
      at = to;
    },
  };
}
