/** When the rooms of a worker tick. */
import { afterEach, expect, test } from "bun:test";
import { Ticker } from "../../src/sfu/ticker.ts";

let ticker: Ticker | null = null;
afterEach(() => ticker?.stop());

const begin = (everyMs: number) => {
  const ticks: number[] = [];
  ticker = new Ticker(
    () => 0,
    (nowMs) => void ticks.push(nowMs),
  );
  ticker.setInterval(everyMs);
  ticker.packetReceived(1_000_000);
  const packetAt = (ms: number) => {
    ticker?.packetReceived(1_000_000 + ms);
    return ticks.length - 1;
  };
  return { packetAt, dueAt: (ms: number) => ticker?.dueInMs(1_000_000 + ms) };
};

test("a packet makes the ticker tick when a tick is due", () => {
  const { packetAt, dueAt } = begin(20);
  expect(dueAt(5)).toBe(15);
  expect([packetAt(19), packetAt(20), packetAt(39), packetAt(40)]).toEqual([0, 1, 1, 2]);
});

test("with a long interval, a packet makes the ticker tick early, so that its timer need not wake the thread", () => {
  const { packetAt, dueAt } = begin(100);
  expect(dueAt(0)).toBe(100);
  expect([packetAt(49), packetAt(50), packetAt(99), packetAt(100)]).toEqual([0, 1, 1, 2]);
  expect(dueAt(100)).toBe(100);
});
