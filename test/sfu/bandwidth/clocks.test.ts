// The path is measured alike, whatever a viewer's clock shows at its join and however it runs.

import { describe, expect, test } from "bun:test";
import { RateMeter } from "../../../src/sfu/bandwidth/rate-meter.ts";
import { DAY_MS, PeerClock, REFERENCE_CIRCLE_MS } from "../peer-clock.ts";
import { Simulation } from "./simulation.ts";

const NARROW = { delayMs: 30, bandwidthBitsPerSecond: 300_000, queueBytes: 1_000_000 };

/** `joinsAt`: true time of the first packet, as the simulation has it. */
function watch(uptimeMs: number, driftPpm = 0): Simulation {
  return new Simulation(NARROW, 30, 3, new PeerClock({ uptimeMs, driftPpm })).run(20_000);
}

describe("a viewer on 300 kbit/s", () => {
  const young = watch(0);

  test("has no lasting queue", () => {
    expect(young.estimator.estimate).toBeLessThan(400_000);
    expect(young.queueMs).toBeLessThan(250);
  });

  test.each(Array.from({ length: 61 }, (_, halfDays) => halfDays / 2))(
    "is measured the same after %d days of uptime",
    (days) => {
      const uptimeMs = Math.round((days * DAY_MS) / 64) * 64;
      const simulation = watch(uptimeMs);
      expect(simulation.estimator.estimate).toBe(young.estimator.estimate);
      expect(simulation.layers).toEqual(young.layers);
    },
  );

  test.each([0.1, 3, 10, 19])(
    "a viewer's bandwidth estimate is the same when its clock wraps %d s into the call",
    (seconds) => {
      const wrapsAtMs = 100_000 + seconds * 1_000;
      for (const circle of [REFERENCE_CIRCLE_MS, REFERENCE_CIRCLE_MS / 2]) {
        const simulation = watch(circle - Math.round(wrapsAtMs / 64) * 64);
        expect(simulation.estimator.estimate).toBe(young.estimator.estimate);
        expect(simulation.layers).toEqual(young.layers);
      }
    },
  );

  test.each([-200, 200])("stays within its path's bandwidth when its clock drifts by %d ppm", (driftPpm) => {
    const simulation = watch(9 * DAY_MS, driftPpm).run(60_000);
    expect(simulation.layer).toBe(0);
    expect(simulation.estimator.estimate).toBeLessThan(400_000);
    expect(simulation.queueMs).toBeLessThan(250);
  });
});

test.each([-200, 200])("a clock that drifts by %d ppm does not make a free path look narrow", (driftPpm) => {
  const clock = new PeerClock({ uptimeMs: 9 * DAY_MS, driftPpm });
  const simulation = new Simulation({ delayMs: 30 }, 30, 3, clock).run(120_000);
  expect(simulation.layer).toBe(2);
});

test("a rate is measured on clocks below zero and across it", () => {
  const meter = new RateMeter();
  for (let ms = -2_000; ms < -1_000; ms += 10) meter.add(125, ms);
  expect(meter.latestBitsPerSecond()).toBe(100_000);
  for (let ms = -1_000; ms < 1_000; ms += 10) meter.add(125, ms);
  expect(meter.latestBitsPerSecond()).toBe(100_000);
});
