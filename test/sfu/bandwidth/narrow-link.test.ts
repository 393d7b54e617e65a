import { describe, expect, test } from "bun:test";
import { BandwidthPlanner } from "../../../src/sfu/bandwidth/planner.ts";
import { SentPackets } from "../../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { SimulatedCall } from "./simulated-call.ts";
import type { TrackShape } from "./simulated-track.ts";

const SEEDS = [1, 2, 3, 4, 5, 6, 7, 8];
const WIDE = { delayMs: 5, bandwidthBitsPerSecond: 20_000_000, queueBytes: 1_000_000 };
const WATCHED_MS = 5_000;

function camera(frameMs: number, ...kbits: number[]): TrackShape {
  const layers = kbits.map((kbit, n) => ({ bitrate: kbit * 1_000, height: 135 * 2 ** n }));
  return { kind: "camera", layers, frameMs };
}

const LITTLE = camera(66, 65, 140, 272);
const USUAL = camera(66, 110, 230, 460);
const LARGE = camera(33, 150, 500, 1_500);

/** A video with all of its bandwidth, on a link that suddenly becomes so narrow. */
function narrowed(shape: TrackShape, kbit: number, bufferMs: number, seed: number) {
  const call = new SimulatedCall(WIDE, [shape], 1, seed).run(10_000 + seed * 37);
  const atMs = call.nowMs;
  const [viewer] = call.viewers;
  if (!viewer) throw new Error("there is no viewer");
  expect(viewer.frames.at(-1)?.layer).toBe(2);
  call.set({ delayMs: 5, bandwidthBitsPerSecond: kbit * 1_000, queueBytes: (kbit * bufferMs) / 8 });
  call.run(10_000);
  const firstMs = viewer.frames.find((frame) => frame.atMs > atMs && frame.layer < 2)?.atMs ?? Number.NaN;
  const layers = viewer.changes.filter((change) => change.atMs > atMs && change.layer >= 0).map(({ layer }) => layer);
  return {
    lowerAfterMs: firstMs - atMs,
    standstillMs: viewer.longestStandstillMs(firstMs, firstMs + WATCHED_MS),
    framesPerSecond: viewer.frames.filter((frame) => frame.atMs >= firstMs).length / ((call.nowMs - firstMs) / 1_000),
    layers,
  };
}

describe("a link that drops below the video's rate", () => {
  test.each([
    ["little", 120, LITTLE],
    ["little", 163, LITTLE],
    ["the usual", 140, USUAL],
    ["the usual", 163, USUAL],
    ["the usual", 200, USUAL],
    ["the usual", 250, USUAL],
    ["the usual", 300, USUAL],
    ["much", 200, LARGE],
    ["much", 300, LARGE],
  ])("%s encoded, %d kbit/s: the layers that fit arrive soon, without later gaps", (_, kbit, shape) => {
    for (const bufferMs of [500, 1_000])
      for (const seed of SEEDS) {
        const seen = narrowed(shape, kbit, bufferMs, seed);
        expect(seen.lowerAfterMs).toBeLessThan(2_500);
        expect(seen.standstillMs).toBeLessThan(1_000);
        expect(seen.framesPerSecond * shape.frameMs).toBeGreaterThan(850);
      }
  });

  test.each([
    ["little", 120, LITTLE],
    ["the usual", 163, USUAL],
    ["the usual", 200, USUAL],
    ["much", 200, LARGE],
    ["much", 300, LARGE],
  ])("%s encoded, %d kbit/s: only the lowest layer fits, which is chosen at once and kept", (_, kbit, shape) => {
    for (const bufferMs of [500, 1_000])
      for (const seed of SEEDS)
        expect(narrowed(shape, kbit, bufferMs, seed).layers.filter((layer) => layer > 0)).toEqual([]);
  });

  test("a path that hardly carries the lowest layer has video most of the time", () => {
    for (const bufferMs of [500, 1_000])
      for (const [shape, kbit] of [[USUAL, 120] as const, [LITTLE, 80] as const, [LARGE, 163] as const]) {
        const all = SEEDS.map((seed) => narrowed(shape, kbit, bufferMs, seed));
        for (const seen of all) expect(seen.lowerAfterMs).toBeLessThan(3_000);
        const stoodStill = all.filter(({ standstillMs }) => standstillMs > 1_000);
        expect(stoodStill.length).toBeLessThanOrEqual(SEEDS.length / 4);
      }
  });
});

describe("sending stays within what a path carries", () => {
  const layers = [110_000, 230_000, 460_000].map((bitrate, n) => ({ bitrate, height: 135 * 2 ** n, live: true }));
  const request = { id: "c", kind: "camera", layers, paused: false, priority: 0 } as const;
  const chosen = (planner: BandwidthPlanner, options: { canProbe: boolean; willProbe: boolean }, nowMs: number) =>
    planner.plan([request], { hasTransportSequence: true, ...options }, nowMs).decisions[0]?.layer;

  /** A path that carries 140 kbit/s according to the viewer's reports. */
  function narrowPath() {
    const planner = new BandwidthPlanner();
    planner.estimator.onRemb(140_000, 0);
    return planner;
  }

  test("no trial starts before the first video has begun, where probes are possible afterwards", () => {
    const planner = narrowPath();
    for (let nowMs = 3_500; nowMs < 9_000; nowMs += 100)
      expect(chosen(planner, { canProbe: false, willProbe: true }, nowMs)).toBe(0);
  });

  test("a trial runs where no packets can be probed with", () => {
    const planner = narrowPath();
    const all = [];
    for (let nowMs = 3_500; nowMs < 9_000; nowMs += 100)
      all.push(chosen(planner, { canProbe: false, willProbe: false }, nowMs));
    expect(all).toContain(1);
  });

  test("no more is sent than a set limit allows, until it is lifted", () => {
    const planner = new BandwidthPlanner();
    const options = { hasTransportSequence: true, canProbe: true, willProbe: true };
    const plan = (nowMs: number) => {
      const { decisions } = planner.plan([request], options, nowMs);
      return { layer: decisions[0]?.layer, reason: decisions[0]?.reason };
    };
    expect(plan(0).layer).toBe(1);
    planner.limitBps = 150_000;
    expect(planner.isDue(100)).toBe(true);
    expect(plan(100)).toEqual({ layer: 0, reason: "bandwidth" });
    planner.limitBps = 10_000;
    for (let nowMs = 200; nowMs < 10_000; nowMs += 100) expect(plan(nowMs)).toEqual({ layer: -1, reason: "bandwidth" });
    planner.limitBps = Number.POSITIVE_INFINITY;
    expect(plan(10_000).layer).toBe(1);
  });
});

test("bytes sent after a packet are counted, reported or not", () => {
  const sent = new SentPackets(65_534);
  for (let n = 0; n < 5; n++) sent.next(1_000 + n, 100 + n);
  expect(sent.bytesAfter(65_535)).toBe(1_002 + 1_003 + 1_004);
  expect(sent.bytesAfter(2)).toBe(0);
  for (let n = 0; n < 5_000; n++) sent.next(10, 200);
  expect(sent.bytesAfter(2)).toBe(20_480);
});
