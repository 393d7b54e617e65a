type Stall = { atMs: number; tookMs: number };
/** How often a duration occurred. */
export type Counted = [ms: number, times: number];

const EVERY_MS = 2;
const MOST_STALLS = 100;

/**
 * Turns of this thread's loop: how late a timer is that should come every two milliseconds. `stalls` are those in which
 * nobody else was heard for long, from when to when by `performance.now()`, the longest first; `late` is how late each was
 * since it was asked for last, and `busy` how long this thread itself computed in it, whatever else the machine did. Time
 * and memory that this takes are measured with the rest: a look costs a few microseconds, and nothing here grows.
 */
export function watchTurns(overMs = 40): { stalls(): Stall[]; late(): Counted[]; busy(): Counted[] } {
  const stalls: Stall[] = [];
  const late = new Durations();
  const busy = new Durations();
  let last = performance.now();
  let lastCpuMs = ownCpuMs();
  setInterval(() => {
    const now = performance.now();
    const tookMs = now - last;
    late.add(tookMs - EVERY_MS);
    const cpuMs = ownCpuMs();
    busy.add(cpuMs - lastCpuMs);
    lastCpuMs = cpuMs;
    if (tookMs > overMs) note({ atMs: Math.round(last), tookMs: Math.round(tookMs) });
    last = now;
  }, EVERY_MS);

  function note(stall: Stall): void {
    stalls.push(stall);
    if (stalls.length > MOST_STALLS) longestFirst().pop();
  }
  const longestFirst = () => stalls.sort((a, b) => b.tookMs - a.tookMs);
  return { stalls: longestFirst, late: () => late.take(), busy: () => busy.take() };
}

function ownCpuMs(): number {
  const { user, system } = process.threadCpuUsage();
  return (user + system) / 1000;
}

const SHORTEST_MS = 0.01;
const STEP = 1.02;
/** The number of steps up to three hours. */
const STEPS = 1050;

/** A histogram of durations, accurate to two per cent, in memory that is allocated at the start. */
export class Durations {
  readonly #counts = new Uint32Array(STEPS);

  add(ms: number): void {
    const step = ms <= SHORTEST_MS ? 0 : Math.ceil(Math.log(ms / SHORTEST_MS) / Math.log(STEP));
    const at = Math.min(step, STEPS - 1);
    this.#counts[at] = (this.#counts[at] ?? 0) + 1;
  }

  /** Since this was asked last, the shortest first. */
  take(): Counted[] {
    const counted: Counted[] = [];
    for (const [step, times] of this.#counts.entries()) {
      if (times > 0) counted.push([step === 0 ? 0 : SHORTEST_MS * STEP ** step, times]);
    }
    this.#counts.fill(0);
    return counted;
  }
}

/** The duration that this share of all did not exceed. */
export function percentileOf(counted: readonly Counted[], share: number): number {
  let left = share * counted.reduce((sum, [, times]) => sum + times, 0);
  for (const [ms, times] of counted) {
    left -= times;
    if (left < 0) return ms;
  }
  return counted.at(-1)?.[0] ?? Number.NaN;
}

/**
 * What a participant who comes at any moment waits for turns of such lengths, at the 99th percentile: as they would on a machine
 * that does nothing else.
 */
export function waitForTurns(busy: readonly Counted[], overallMs: number): number {
  const beyond = (waitMs: number) =>
    busy.reduce((sum, [took, times]) => sum + times * Math.max(0, took - waitMs), 0) / overallMs;
  let [low, high] = [0, busy.at(-1)?.[0] ?? 0];
  for (let step = 0; step < 40; step++) {
    const middle = (low + high) / 2;
    if (beyond(middle) > 0.01) low = middle;
    else high = middle;
  }
  return high;
}
