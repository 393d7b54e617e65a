import { expect, test } from "bun:test";
import { BottleneckDetector } from "../../../src/sfu/bandwidth/bottleneck-detector.ts";
import { reportOf } from "./report-of.ts";
import { SimulatedCall } from "./simulated-call.ts";
import { SMALL_CAMERA, VOICE } from "./simulated-track.ts";

const LINK = { bandwidthBitsPerSecond: 700_000, queueBytes: 43_750, delayMs: 20, repeats: true } as const;
const SHAPES = [VOICE, SMALL_CAMERA, SMALL_CAMERA, SMALL_CAMERA];

test.each([
  ["5 % are lost", 0.05],
  ["8 % are lost", 0.08],
])(
  "a voice and three cameras over a connection that repeats lost packets: %s, the video never freezes for long",
  (_name, lossRatio) => {
    const longest = Array.from({ length: 30 }, (_none, n) => {
      const call = new SimulatedCall({ ...LINK, lossRatio }, SHAPES, 1, n + 1).run(45_000);
      expect(call.used(10_000)).toBeGreaterThan(0.4);
      return call.longestStandstillMs(5_000);
    });
    expect(Math.max(...longest)).toBeLessThan(1_000);
  },
);

/** A packet every 10 ms, sent from 1,000 ms on, which arrive as given. */
function arriving(arrivals: readonly number[], bytes: (n: number) => number = () => 1_000) {
  const narrowing = new BottleneckDetector();
  narrowing.add(
    reportOf(arrivals.map((arrivedAtMs, n) => ({ sentAtMs: 1_000 + 10 * n, arrivedAtMs, bytes: bytes(n) }))),
  );
  return narrowing.carriedBps(20);
}

test("packets that arrive far more slowly than they were sent show the link's capacity", () => {
  const evenly = Array.from({ length: 8 }, (_none, n) => 1_100 + 30 * n);
  expect(arriving(evenly)).toBeCloseTo((1_000 * 8) / 0.03, -1);
  // Small packets of audio between large ones of video: each takes the time that its bytes need.
  const sizes = [160, 1_100, 160, 1_100, 160, 1_100, 160, 1_100];
  let atMs = 1_100;
  const mixed = sizes.map((size) => (atMs += size / 25));
  expect(arriving(mixed, (n) => sizes[n] ?? 0)).toBeCloseTo(25 * 8_000, -1);
});

test("packets held back behind a repeated one show no bottleneck", () => {
  expect(arriving([1_085, 1_095, 1_105, 1_280, 1_281, 1_282, 1_283, 1_284])).toBeUndefined();
});
