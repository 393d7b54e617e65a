import { readFileSync } from "node:fs";

type Stall = { atMs: number; tookMs: number };

const EVERY_MS = 2;

/**
 * Turns of this thread's loop: how late a timer is that should come every two milliseconds. `stalls` are those in which
 * nobody else was heard for long, from when to when by `performance.now()`, the longest first; `late` is how late each was
 * since it was asked for last, and `busy` how long this thread itself computed in it, whatever else the machine did.
 */
export function watchTurns(overMs = 40): { stalls(): Stall[]; late(): number[]; busy(): number[] } {
  const stalls: Stall[] = [];
  let late: number[] = [];
  let busy: number[] = [];
  let last = performance.now();
  let lastCpuMs = ownCpuMs();
  setInterval(() => {
    const now = performance.now();
    const tookMs = now - last;
    late.push(Math.max(0, tookMs - EVERY_MS));
    const cpuMs = ownCpuMs();
    busy.push(cpuMs - lastCpuMs);
    lastCpuMs = cpuMs;
    if (tookMs > overMs) stalls.push({ atMs: Math.round(last), tookMs: Math.round(tookMs) });
    last = now;
  }, EVERY_MS);
  return {
    stalls: () => stalls.sort((a, b) => b.tookMs - a.tookMs).slice(0, 100),
    late() {
      const told = late;
      late = [];
      return told;
    },
    busy() {
      const told = busy;
      busy = [];
      return told;
    },
  };
}

const ownCpuMs = () => Number(readFileSync("/proc/thread-self/schedstat", "utf8").split(" ", 1)[0]) / 1e6;

/**
 * What somebody who comes at any moment waits for turns of such lengths, at the 99th percentile: as they would on a machine
 * that does nothing else.
 */
export function waitForTurns(busyMs: readonly number[], overallMs: number): number {
  const beyond = (waitMs: number) => busyMs.reduce((sum, took) => sum + Math.max(0, took - waitMs), 0) / overallMs;
  let [low, high] = [0, busyMs.reduce((a, b) => Math.max(a, b), 0)];
  for (let step = 0; step < 40; step++) {
    const middle = (low + high) / 2;
    if (beyond(middle) > 0.01) low = middle;
    else high = middle;
  }
  return high;
}
