import { describe, expect, test } from "bun:test";
import { LayerChooser } from "../../../src/sfu/bandwidth/layer-chooser.ts";
import { LayerRate } from "../../../src/sfu/bandwidth/rate-meter.ts";

/** Sends at this rate, in a frame every 50 ms. */
function send(rate: LayerRate, bitrate: number, fromMs: number, toMs: number): void {
  for (let atMs = fromMs; atMs < toMs; atMs += 50) rate.add((bitrate / 8000) * 50, atMs);
}

describe("the rate of a layer", () => {
  test("is the rate of recent packets", () => {
    const rate = new LayerRate();
    send(rate, 400_000, 0, 10_000);
    expect(rate.bitsPerSecond(10_000)).toBeWithin(390_000, 410_000);
    expect(rate.isNew(10_000)).toBe(false);
  });

  test("is not less after a silence than before, from the first packet on", () => {
    const rate = new LayerRate();
    send(rate, 400_000, 0, 10_000);
    for (const atMs of [30_000, 30_050, 30_500, 31_000, 31_450]) {
      send(rate, 400_000, atMs, atMs + 1);
      expect(rate.bitsPerSecond(atMs + 1)).toBeGreaterThan(390_000);
      expect(rate.isNew(atMs + 1)).toBe(false);
    }
  });

  test("is measured again after a silence: the former rate is forgotten within two seconds", () => {
    const rate = new LayerRate();
    send(rate, 400_000, 0, 10_000);
    send(rate, 100_000, 30_000, 32_000);
    expect(rate.bitsPerSecond(32_000)).toBeWithin(90_000, 115_000);
  });

  test("a higher rate shows at once, and a first keyframe does not count as the rate", () => {
    const rate = new LayerRate();
    send(rate, 100_000, 0, 10_000);
    send(rate, 800_000, 30_000, 30_700);
    expect(rate.bitsPerSecond(30_700)).toBeGreaterThan(300_000);
    const young = new LayerRate();
    young.add(5_000, 1_000);
    expect(young.bitsPerSecond(1_050)).toBeLessThan(50_000);
    expect(young.isNew(1_050)).toBe(true);
  });

  test("is at least the nominal rate for a new layer, so that many do not seem to fit", () => {
    const layers = [{ bitrate: 20_000, height: 180, live: true, isNew: true }];
    const requests = ["a", "b", "c"].map((id) => ({ id, kind: "camera" as const, layers, paused: false, priority: 0 }));
    const { decisions, used } = new LayerChooser().choose(requests, 250_000, 0);
    expect(decisions.map(({ layer }) => layer)).toEqual([0, -1, -1]);
    expect(used).toBe(150_000);
  });
});
