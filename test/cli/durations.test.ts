import { expect, test } from "bun:test";
import { Durations, percentileOf, waitForTurns } from "../bench/hostile/stalls.ts";

function durationsOf(...ms: number[]): Durations {
  const durations = new Durations();
  for (const one of ms) durations.add(one);
  return durations;
}
const within = (measured: number, ms: number) => Math.abs(measured - ms) <= ms * 0.02;

test("a percentile of durations is accurate to 2 %, from a microsecond to an hour", () => {
  const counted = durationsOf(...Array.from({ length: 100 }, (_, n) => n + 1)).take();
  expect(within(percentileOf(counted, 0.5), 51)).toBe(true);
  expect(within(percentileOf(counted, 0.99), 100)).toBe(true);
  expect(percentileOf(durationsOf(0, 0.001, -1).take(), 0.99)).toBe(0);
  expect(within(percentileOf(durationsOf(3_600_000).take(), 0.5), 3_600_000)).toBe(true);
  expect(percentileOf([], 0.5)).toBeNaN();
});

test("durations that were read are not counted again, and the count is exact", () => {
  const durations = durationsOf(5, 5, 5);
  expect(durations.take().map(([, times]) => times)).toEqual([3]);
  expect(durations.take()).toEqual([]);
  for (let n = 0; n < 100_000; n++) durations.add(n / 10);
  expect(durations.take().length).toBeLessThan(1_000);
});

test("a request that arrives while one event-loop tick in ten takes 100 ms waits for most of it", () => {
  const turns = durationsOf(...Array.from({ length: 10 }, () => 100));
  expect(within(waitForTurns(turns.take(), 10_000), 90)).toBe(true);
});
