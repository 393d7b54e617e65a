import { expect, test } from "bun:test";
import { ClockOffset } from "../../src/nodes/clock-offset.ts";

/** A ping over a network with these delays, to a clock that is ahead by this. */
const ping = (sentAtMs: number, thereMs: number, backMs: number, aheadMs: number) => ({
  sentAtMs,
  receivedAtMs: sentAtMs + thereMs + backMs,
  answeredAtMs: sentAtMs + thereMs + aheadMs,
});

test("[18] the offset of another clock is that of the ping with the shortest round trip", () => {
  const offset = new ClockOffset();
  expect(offset.ms).toBe(0);
  offset.add(ping(1_000, 40, 400, 700));
  offset.add(ping(3_000, 40, 42, 700));
  offset.add(ping(5_000, 900, 40, 700));
  expect(offset.ms).toBe(699);
});

test("[18] the offset follows a change of the other clock, and ignores pings during which our own clock was set", () => {
  const offset = new ClockOffset();
  offset.add(ping(1_000, 10, 10, 700));
  offset.add({ sentAtMs: 90_000, receivedAtMs: 3_020, answeredAtMs: 3_710 });
  expect(offset.ms).toBe(700);
  for (let n = 0; n < 8; n++) offset.add(ping(5_000 + n * 2_000, 20, 20, -300));
  expect(offset.ms).toBe(-300);
});
