import { describe, expect, test } from "bun:test";
import { layerIndex, PublishedLayer } from "../../../src/sfu/tracks/published-layer.ts";

describe("a published layer", () => {
  const running = (frameMs: number, untilMs: number) => {
    const layer = new PublishedLayer("video", 0, null);
    layer.restart(7, 90_000, 0);
    for (let at = 0; at <= untilMs; at += frameMs) layer.received(at * 90, 1_000, 1_000_000 + at);
    return layer;
  };

  test("is live while frames arrive, and for a few frames more", () => {
    const layer = running(66, 3_000);
    expect(layer.isLive(1_000_000 + 3_000 + 350, 0)).toBe(true);
    expect(layer.isLive(1_000_000 + 3_000 + 700, 0)).toBe(false);
  });

  test("is live for two seconds when it has one frame a second", () => {
    const layer = running(1_000, 20_000);
    expect(layer.isLive(1_000_000 + 20_000 + 1_900, 0)).toBe(true);
    expect(layer.isLive(1_000_000 + 20_000 + 2_100, 0)).toBe(false);
  });

  test("counts as stopped when the other layers have three more frames, with or without jitter", () => {
    const layer = running(66, 3_000);
    const last = layer.lastFrameMs;
    expect(layer.isLive(last + 320, last + 190)).toBe(true);
    expect(layer.isLive(last + 320, last + 205)).toBe(false);
    const slow = running(1_000, 20_000);
    expect(slow.isLive(slow.lastFrameMs + 1_500, slow.lastFrameMs + 1_500)).toBe(true);
  });

  test("is not live without a packet", () => {
    expect(new PublishedLayer("video", 0, null).isLive(0, 0)).toBe(false);
  });

  test("lets new subscribers start with its newest keyframe for half a second", () => {
    const layer = new PublishedLayer("video", 0, null);
    layer.restart(7, 90_000, 0);
    expect(layer.recentKeyframe(1_000)).toBeNull();
    layer.keyframeForwarded(70_000, 1_000);
    layer.keyframeForwarded(69_990, 1_200);
    expect(layer.recentKeyframe(1_499)).toBe(70_000);
    expect(layer.recentKeyframe(1_500)).toBeNull();
    layer.keyframeForwarded(70_100, 1_600);
    expect(layer.recentKeyframe(1_700)).toBe(70_100);
    layer.restart(8, 90_000, 1_700);
    expect(layer.recentKeyframe(1_700)).toBeNull();
  });

  test("ignores packets of a replaced stream for two seconds", () => {
    const layer = new PublishedLayer("video", 0, null);
    layer.restart(7, 90_000, 0);
    layer.repairSsrc = 70;
    const before = layer.ring;
    layer.restart(8, 90_000, 1_000);
    expect(layer.ring).not.toBe(before);
    for (const ssrc of [7, 70]) expect(layer.isStraggler(ssrc, 2_999)).toBe(true);
    expect(layer.isStraggler(8, 1_000)).toBe(false);
    expect(layer.isStraggler(7, 3_000)).toBe(false);
    layer.restart(7, 90_000, 3_000);
    expect(layer.isStraggler(7, 3_000)).toBe(false);
    expect(layer.isStraggler(8, 3_000)).toBe(true);
  });

  test("requests one keyframe per half second, and none that has arrived", () => {
    const layer = new PublishedLayer("video", 0, null);
    expect(layer.takeKeyframeRequest(0)).toBe(false);
    layer.requestKeyframe();
    layer.requestKeyframe();
    expect(layer.takeKeyframeRequest(1_000)).toBe(true);
    expect(layer.takeKeyframeRequest(1_001)).toBe(false);
    layer.requestKeyframe();
    expect(layer.takeKeyframeRequest(1_400)).toBe(false);
    expect(layer.takeKeyframeRequest(1_500)).toBe(true);
    layer.requestKeyframe();
    layer.keyframeArrived(1, 360);
    expect(layer.takeKeyframeRequest(3_000)).toBe(false);
    expect(layer.height).toBe(360);
  });

  test.each([
    ["q", ["q", "h", "f"], 0],
    ["f", ["h", "f"], 2],
    ["a", ["a", "b", "c"], 0],
    ["c", ["a", "b", "c"], 2],
    [null, [], 0],
    ["constructor", ["constructor", "toString"], 0],
    ["toString", ["constructor", "toString"], 1],
  ] as const)("rid %s of %p is layer %d", (rid, rids, index) => {
    expect(layerIndex(rid, rids)).toBe(index);
  });
});
