import { expect, test } from "bun:test";
import { threadLoad } from "../../src/sfu/thread-load.ts";

/** A clock that goes as fast as the test wants: how much was done in it is then known, however slow the machine is. */
function measured(work: () => void, elapsedMs: number): number | null {
  let nowMs = 0;
  const load = threadLoad(() => nowMs);
  expect(load()).toBeNull();
  work();
  nowMs += elapsedMs;
  return load();
}

function burn(cpuMs: number): void {
  const before = process.cpuUsage();
  const used = () => {
    const { user, system } = process.cpuUsage(before);
    return (user + system) / 1_000;
  };
  while (used() < cpuMs);
}

test("a thread that works, or waits for a processor, all the time is fully busy; one that does neither is not", () => {
  expect(measured(() => burn(900), 600)).toBe(100);
  expect(measured(() => {}, 600_000)).toBeLessThan(50);
});

test("a second request immediately after the first returns the same load", () => {
  let nowMs = 0;
  const load = threadLoad(() => nowMs);
  load();
  nowMs = 600_000;
  const first = load();
  burn(20);
  nowMs += 1;
  expect(load()).toBe(first);
});
