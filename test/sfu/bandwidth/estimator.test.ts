import { describe, expect, test } from "bun:test";
import { BandwidthEstimator } from "../../../src/sfu/bandwidth/bandwidth-estimator.ts";
import { RateMeter } from "../../../src/sfu/bandwidth/rate-meter.ts";
import { Simulation } from "./simulation.ts";

test("before the first report the lowest layers are sent, up to 5 Mbit/s, and less where feedback is expected", () => {
  const estimator = new BandwidthEstimator();
  expect(estimator.budget(0, 0, true)).toBe(300_000);
  expect(estimator.budget(0, 2_500_000, true)).toBe(2_500_000);
  expect(estimator.budget(0, 9_000_000, true)).toBe(5_000_000);
  expect(estimator.budget(0, 100_000, false)).toBe(5_000_000);
});

describe("a viewer's bandwidth, simulated", () => {
  test("a free path brings the highest layer within 5 s, and keeps it", () => {
    const simulation = new Simulation({ delayMs: 30 }).run(5_000);
    expect(simulation.layer).toBe(2);
    const changes = simulation.layers.length;
    simulation.run(30_000);
    expect(simulation.layers.length).toBe(changes);
  });

  test("a subscriber on a free path gets the lowest layer at once and the highest within 1.5 s", () => {
    const simulation = new Simulation({ delayMs: 30 }).run(300);
    expect(simulation.layer).toBe(0);
    simulation.run(1_200);
    expect(simulation.layer).toBe(2);
  });

  test.each([300_000, 600_000, 1_000_000, 2_000_000])(
    "on a path of %d bit/s that queues everything, no packet ever waits longer than a quarter of a second",
    (bandwidthBitsPerSecond) => {
      const simulation = new Simulation({ delayMs: 30, bandwidthBitsPerSecond, queueBytes: 1_000_000 });
      for (let i = 0; i < 300; i++) expect(simulation.run(100).queueMs).toBeLessThan(250);
      expect(simulation.layer).toBe(bandwidthBitsPerSecond < 500_000 ? 0 : bandwidthBitsPerSecond < 1_600_000 ? 1 : 2);
    },
  );

  test("a queue of more than half a second stops the video, which returns once the queue has drained", () => {
    const simulation = new Simulation({ delayMs: 30 }).run(10_000);
    simulation.network.set({ delayMs: 30, bandwidthBitsPerSecond: 300_000, queueBytes: 1_000_000 });
    simulation.layers.length = 0;
    simulation.run(10_000);
    expect(simulation.layers.map(({ layer }) => layer)).toEqual([-1, 0]);
    expect(simulation.queueMs).toBeLessThan(100);
    // The queue takes as long to drain as it is deep, so a longer pause would be useless.
    const [paused, back] = simulation.layers;
    expect((back?.atMs ?? Number.NaN) - (paused?.atMs ?? Number.NaN)).toBeLessThan(4_000);
  });

  test("a subscriber that resumes after a pause without reports has the highest layer within 1.5 s", () => {
    const simulation = new Simulation({ delayMs: 30, bandwidthBitsPerSecond: 400_000, queueBytes: 20_000 });
    simulation.run(5_000);
    simulation.watched = false;
    simulation.run(12_000);
    simulation.network.set({ delayMs: 30 });
    simulation.watched = true;
    expect(simulation.run(1_500).layer).toBe(2);
  });

  test("a subscriber on 300 kbit/s has the lowest layer within 3 s and keeps it", () => {
    const simulation = new Simulation({ delayMs: 30, bandwidthBitsPerSecond: 300_000, queueBytes: 40_000 }).run(3_000);
    expect(simulation.layer).toBe(0);
    simulation.layers.length = 0;
    simulation.run(20_000);
    expect(simulation.layers.filter(({ layer }) => layer > 0).length).toBeLessThanOrEqual(2);
  });

  test("300 kbit/s: the lowest layer within 3 s; lifted: the highest back within 10 s", () => {
    const simulation = new Simulation({ delayMs: 30 }).run(10_000);
    expect(simulation.layer).toBe(2);
    simulation.network.set({ delayMs: 30, bandwidthBitsPerSecond: 300_000, queueBytes: 40_000 });
    simulation.run(3_000);
    expect(simulation.layer).toBe(0);
    simulation.layers.length = 0;
    simulation.run(40_000);
    // The layer is kept: hardly a second is spent above what fits.
    expect(simulation.layers.filter(({ layer }) => layer > 0).length).toBeLessThanOrEqual(2);
    expect(simulation.estimator.estimate).toBeLessThan(400_000);
    simulation.network.set({ delayMs: 30 });
    simulation.run(10_000);
    expect(simulation.layer).toBe(2);
  });

  test.each([1_400_000, 1_200_000, 800_000, 400_000])(
    "a path of %d bit/s, too narrow for the highest layer: a lower one within 3 s",
    (bandwidthBitsPerSecond) => {
      const simulation = new Simulation({ delayMs: 30 }).run(10_000);
      simulation.network.set({ delayMs: 30, bandwidthBitsPerSecond, queueBytes: bandwidthBitsPerSecond / 16 });
      simulation.run(3_000);
      expect(simulation.layer).toBeLessThan(2);
    },
  );

  test("800 kbit/s is found and used: the middle layer, steadily", () => {
    const simulation = new Simulation({ delayMs: 30, bandwidthBitsPerSecond: 800_000, queueBytes: 50_000 }).run(15_000);
    simulation.layers.length = 0;
    simulation.run(60_000);
    expect(simulation.layer).toBe(1);
    expect(simulation.layers.length).toBeLessThanOrEqual(6);
    expect(simulation.estimator.estimate).toBeGreaterThan(600_000);
    expect(simulation.estimator.estimate).toBeLessThan(850_000);
  });

  test.each([
    ["5 % random loss", { delayMs: 30, lossRatio: 0.05 }],
    ["reordering and duplication", { delayMs: 30, reorderRatio: 0.05, reorderMs: 15, duplicateRatio: 0.05 }],
    ["30 ms of jitter", { delayMs: 30, jitterMs: 30 }],
    ["a burst of loss, 200 ms of every second", { delayMs: 30, burst: { periodMs: 1_000, lengthMs: 200 } }],
  ])("%s takes no layer away", (_, options) => {
    const simulation = new Simulation(options).run(20_000);
    simulation.layers.length = 0;
    simulation.run(20_000);
    expect(simulation.layer).toBe(2);
    expect(simulation.layers).toEqual([]);
  });

  test("100 ms of jitter costs the highest layer for a while, never the lowest, and layers do not flicker", () => {
    const simulation = new Simulation({ delayMs: 30, jitterMs: 100 }).run(60_000);
    expect(simulation.layer).toBe(2);
    expect(simulation.layers.length).toBeLessThanOrEqual(6);
    expect(Math.min(...simulation.layers.map(({ layer }) => layer))).toBeGreaterThanOrEqual(0);
  });

  test("a publisher that falters when jitter begins does not pause any subscriber", () => {
    const least = Array.from({ length: 40 }, (_, seed) => {
      const simulation = new Simulation({ delayMs: 30 }, 30, seed);
      simulation.frameMs = 66;
      simulation.run(5_000);
      simulation.network.set({ delayMs: 90, jitterMs: 100 });
      simulation.run(300 + seed * 20);
      // The publisher's highest layer ends, and another is chosen once that has been noticed.
      simulation.published = 0;
      simulation.run(500);
      simulation.published = 2;
      let estimate = Number.POSITIVE_INFINITY;
      for (let i = 0; i < 30; i++) estimate = Math.min(estimate, simulation.run(100).estimator.estimate);
      return Math.round(estimate);
    });
    expect(Math.min(...least)).toBeGreaterThan(300_000);
  });

  test.each([1, 2, 3, 4])(
    "a path that becomes 200 ms longer may cost a layer for a while, and never the whole video (%d)",
    (seed) => {
      const simulation = new Simulation({ delayMs: 30, jitterMs: 20 }, 30, seed).run(10_000);
      simulation.network.set({ delayMs: 230, jitterMs: 20 });
      simulation.run(20_000);
      expect(Math.min(...simulation.layers.map(({ layer }) => layer))).toBeGreaterThanOrEqual(0);
      simulation.run(20_000);
      expect(simulation.layer).toBe(2);
    },
  );

  test("no video is sent on a path too narrow for any, and it is back within 8 s when the path widens", () => {
    const simulation = new Simulation({ delayMs: 30 }).run(5_000);
    simulation.network.set({ delayMs: 30, bandwidthBitsPerSecond: 40_000, queueBytes: 5_000 });
    simulation.run(15_000);
    expect(simulation.layers.some(({ layer }) => layer < 0)).toBe(true);
    simulation.network.set({ delayMs: 30 });
    simulation.run(8_000);
    expect(simulation.layer).toBeGreaterThanOrEqual(0);
    simulation.run(10_000);
    expect(simulation.layer).toBe(2);
  });

  test("a shallow queue, which drops instead of delaying, is noticed by its loss", () => {
    const simulation = new Simulation({ delayMs: 30 }).run(10_000);
    simulation.network.set({ delayMs: 30, bandwidthBitsPerSecond: 1_000_000, queueBytes: 4_000 });
    simulation.run(5_000);
    expect(simulation.layer).toBe(1);
  });

  test("all loss on the path is counted since the last call", () => {
    const simulation = new Simulation({ delayMs: 30, lossRatio: 0.2 });
    expect(simulation.estimator.takeLoss()).toBeNull();
    const lossy = simulation.run(20_000).estimator.takeLoss() ?? 0;
    expect(lossy).toBeGreaterThan(0.15);
    expect(lossy).toBeLessThan(0.25);
    simulation.network.set({ delayMs: 30 });
    simulation.run(1_000).estimator.takeLoss();
    expect(simulation.run(5_000).estimator.takeLoss()).toBe(0);
  });

  test("loss that is not due to congestion costs at most one layer, and not for long", () => {
    const simulation = new Simulation({ delayMs: 30 }).run(10_000);
    simulation.network.set({ delayMs: 30, lossRatio: 0.2 });
    simulation.run(30_000);
    expect(simulation.layer).toBe(2);
    expect(Math.min(...simulation.layers.map(({ layer }) => layer))).toBeGreaterThanOrEqual(1);
  });

  test("probes are rare, and a subscriber that has all layers sends none", () => {
    const simulation = new Simulation({ delayMs: 30, bandwidthBitsPerSecond: 300_000, queueBytes: 40_000 }).run(60_000);
    expect(simulation.probes).toBeLessThanOrEqual(15);
    const free = new Simulation({ delayMs: 30 }).run(10_000);
    const { probes } = free;
    free.run(30_000);
    expect(free.probes).toBe(probes);
  });
});

describe("REMB, where there is no transport-wide feedback", () => {
  test("REMB lowers the estimate at once, and bandwidth trials raise it until the subscriber sends a lower REMB", () => {
    const estimator = new BandwidthEstimator();
    estimator.onRemb(250_000, 1_000);
    expect(estimator.budget(1_000)).toBe(250_000);
    expect(estimator.isCongested(1_000)).toBe(true);
    expect(estimator.requestUpgrade(600_000, 1_500)).toBeUndefined();
    expect(estimator.budget(1_500)).toBe(250_000);
    estimator.requestUpgrade(600_000, 3_500);
    expect(estimator.budget(3_500)).toBe(600_000);
    estimator.onRemb(200_000, 4_000);
    expect(estimator.budget(4_000)).toBe(200_000);
    estimator.requestUpgrade(600_000, 6_000);
    expect(estimator.budget(6_000)).toBe(200_000);
    // Never later than 8 s: a path that has recovered is found.
    estimator.requestUpgrade(600_000, 12_000);
    expect(estimator.budget(12_000)).toBe(600_000);
    estimator.onRemb(700_000, 13_000);
    expect(estimator.budget(20_000)).toBe(700_000);
  });

  test("REMB is ignored while transport-wide feedback comes", () => {
    const simulation = new Simulation({ delayMs: 10 }).run(5_000);
    const before = simulation.estimator.estimate;
    simulation.estimator.onRemb(60_000, simulation.nowMs);
    expect(simulation.estimator.estimate).toBe(before);
  });

  test("the estimate stays within its bounds", () => {
    const estimator = new BandwidthEstimator();
    estimator.onRemb(1, 0);
    expect(estimator.estimate).toBe(50_000);
    estimator.onRemb(1e12, 1);
    expect(estimator.estimate).toBe(50_000_000);
  });
});

describe("rates", () => {
  test("a steady stream is measured exactly, across gaps and from the start", () => {
    const meter = new RateMeter();
    expect(meter.bitsPerSecond(0)).toBe(0);
    for (let now = 0; now < 2_000; now += 10) meter.add(1_250, now);
    expect(meter.bitsPerSecond(2_000)).toBeCloseTo(1_000_000, -4);
    expect(meter.bitsPerSecond(2_250)).toBeCloseTo(500_000, -4);
    expect(meter.bitsPerSecond(60_000)).toBe(0);
    const young = new RateMeter();
    for (let now = 1_000; now < 1_200; now += 10) young.add(1_250, now);
    expect(young.bitsPerSecond(1_200)).toBeCloseTo(1_000_000, -4);
  });
});
