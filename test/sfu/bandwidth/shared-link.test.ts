import { describe, expect, test } from "bun:test";
import { BottleneckDetector } from "../../../src/sfu/bandwidth/bottleneck-detector.ts";
import { BandwidthPlanner } from "../../../src/sfu/bandwidth/planner.ts";
import { reportOf } from "./report-of.ts";
import { SimulatedCall } from "./simulated-call.ts";
import { LARGE_CAMERA, REDUNDANT_VOICE, SMALL_CAMERA, VOICE } from "./simulated-track.ts";

const CAMERAS = [SMALL_CAMERA, SMALL_CAMERA, SMALL_CAMERA];
const SEEDS = [1, 2, 3, 4, 5];
const MORE_SEEDS = Array.from({ length: 20 }, (_, n) => n + 1);

function link(kbit: number, bufferMs: number) {
  return { delayMs: 20, bandwidthBitsPerSecond: kbit * 1_000, queueBytes: (kbit * bufferMs) / 8 };
}

describe("a voice and three cameras over a narrow link", () => {
  test.each([
    ["300 kbit/s", 300, 1_000, REDUNDANT_VOICE],
    ["300 kbit/s, plain voice", 300, 1_000, VOICE],
    ["500 kbit/s", 500, 1_000, VOICE],
    ["1 Mbit/s with a buffer of 200 ms", 1_000, 200, REDUNDANT_VOICE],
    ["2 Mbit/s", 2_000, 300, REDUNDANT_VOICE],
  ])("%s: the link is used, no queue stays, and the video does not freeze", (_, kbit, bufferMs, voice) => {
    for (const seed of SEEDS) {
      const call = new SimulatedCall(link(kbit, bufferMs), [voice, ...CAMERAS], 1, seed).run(30_000);
      expect(call.queueMs(0.95)).toBeLessThan(250);
      expect(call.used(10_000)).toBeGreaterThan(0.7);
      expect(call.longestStandstillMs(5_000)).toBeLessThan(1_000);
    }
  });

  test.each([
    ["300 kbit/s", 300, 1_000, REDUNDANT_VOICE],
    ["300 kbit/s, plain voice", 300, 1_000, VOICE],
    ["1 Mbit/s with a buffer of 200 ms", 1_000, 200, REDUNDANT_VOICE],
  ])(
    "%s, whose videos were paused without viewers or have just begun: the first viewer is not sent all layers",
    (_, ...way) => {
      const [kbit, bufferMs, voice] = way;
      for (const seed of SEEDS)
        for (const origin of [{ wakes: 120 }, { began: 500 }, { began: 2_000 }]) {
          const call = new SimulatedCall(link(kbit, bufferMs), [voice, ...CAMERAS], 1, seed, origin).run(10_000);
          expect(call.queueMs(0.95)).toBeLessThan(200);
          expect(call.queueMs(1)).toBeLessThan(250);
          expect(call.longestStandstillMs(1_000)).toBeLessThan(1_000);
        }
    },
  );

  test("after a drop from 1.5 Mbit/s to 300 kbit/s the queue drains within 3 s and video is back", () => {
    for (const seed of SEEDS) {
      const call = new SimulatedCall(link(1_500, 10_000), [REDUNDANT_VOICE, ...CAMERAS], 1, seed).run(12_000);
      call.set(link(300, 10_000));
      call.run(14_000);
      expect(call.queueMs(1, 12_000)).toBeLessThan(1_800);
      expect(call.queueMs(1, 15_000)).toBeLessThan(300);
      expect(call.longestStandstillMs(12_000)).toBeLessThan(2_000);
      call.set(link(1_500, 500));
      call.run(20_000);
      expect(call.used(41_000)).toBeGreaterThan(0.6);
    }
  });

  test("two viewers share 1 Mbit/s evenly", () => {
    for (const seed of SEEDS) {
      const call = new SimulatedCall(link(1_000, 500), [REDUNDANT_VOICE, ...CAMERAS], 2, seed).run(35_000);
      expect(call.unevenness).toBeLessThan(1.5);
      expect(call.queueMs(0.95)).toBeLessThan(250);
      expect(call.used(10_000)).toBeGreaterThan(0.75);
      expect(call.longestStandstillMs(5_000)).toBeLessThan(1_000);
    }
  });

  // Layers are steps, and a viewer with one more gets far more: on average and in nearly every call, rather than in each.
  test.each([
    [1_800, [REDUNDANT_VOICE, ...CAMERAS]],
    [2_400, [REDUNDANT_VOICE, ...CAMERAS]],
    [4_000, [VOICE, LARGE_CAMERA, LARGE_CAMERA]],
    [5_000, [VOICE, LARGE_CAMERA, LARGE_CAMERA]],
  ])("the first of two subscribers on %d kbit/s makes room for the second", (kbit, shapes) => {
    const calls = MORE_SEEDS.map((seed) => new SimulatedCall(link(kbit, 500), shapes, 2, seed).run(35_000));
    const unevenness = calls.map((call) => call.unevenness).sort((a, b) => a - b);
    expect(unevenness.reduce((sum, one) => sum + one, 0) / calls.length).toBeLessThan(1.25);
    expect(unevenness.filter((one) => one > 1.5).length).toBeLessThanOrEqual(2);
    expect(unevenness.at(-1)).toBeLessThan(1.8);
    for (const call of calls) expect(call.queueMs(0.95)).toBeLessThan(260);
  });
});

describe("a link that becomes narrow", () => {
  const sent = (toArrival: (n: number) => number) => {
    const narrowing = new BottleneckDetector();
    const packets = Array.from({ length: 40 }, (_none, n) => ({
      sentAtMs: n * 10,
      arrivedAtMs: toArrival(n),
      bytes: 1_000,
    }));
    narrowing.add(reportOf(packets));
    return narrowing.carriedBps(30);
  };

  test("is detected by packets that arrive far more slowly than they were sent, whose rate is its capacity", () => {
    expect(sent((n) => n * 10 + 30)).toBeUndefined();
    expect(sent((n) => n * 40 + 30)).toBeCloseTo(200_000, -3);
  });

  test("is not confused with a longer path or a short stall", () => {
    expect(sent((n) => n * 10 + (n < 30 ? 30 : 330))).toBeUndefined();
    expect(sent((n) => Math.max(n * 10 + 30, n < 30 ? 0 : 430))).toBeUndefined();
  });
});

test("retransmissions take at most a share of the bandwidth", () => {
  const planner = new BandwidthPlanner();
  planner.plan([], { hasTransportSequence: true, canProbe: false, willProbe: false }, 0);
  let bytes = 0;
  for (let nowMs = 0; nowMs < 10_000; nowMs += 5) if (planner.takeRepair(1_000, nowMs)) bytes += 1_000;
  expect((bytes * 8) / 10).toBeWithin(60_000, 110_000);
});
