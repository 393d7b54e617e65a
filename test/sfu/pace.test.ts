/** When time passes for the rooms of a worker. */
import { afterEach, expect, test } from "bun:test";
import { Pace } from "../../src/sfu/pace.ts";

let pace: Pace | null = null;
afterEach(() => pace?.stop());

const begin = (everyMs: number) => {
  const ticks: number[] = [];
  pace = new Pace(
    () => 0,
    (nowMs) => void ticks.push(nowMs),
  );
  pace.set(everyMs);
  pace.packetCame(1_000_000);
  const cameAt = (ms: number) => {
    pace?.packetCame(1_000_000 + ms);
    return ticks.length - 1;
  };
  return { cameAt, dueAt: (ms: number) => pace?.dueInMs(1_000_000 + ms) };
};

test("it passes with a packet when it is due", () => {
  const { cameAt, dueAt } = begin(20);
  expect(dueAt(5)).toBe(15);
  expect([cameAt(19), cameAt(20), cameAt(39), cameAt(40)]).toEqual([0, 1, 1, 2]);
});

test("it passes early with a packet that comes before a long time is over: nobody is woken for it a second time", () => {
  const { cameAt, dueAt } = begin(100);
  expect(dueAt(0)).toBe(100);
  expect([cameAt(49), cameAt(50), cameAt(99), cameAt(100)]).toEqual([0, 1, 1, 2]);
  expect(dueAt(100)).toBe(100);
});
