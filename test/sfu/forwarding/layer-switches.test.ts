import { describe, expect, test } from "bun:test";
import { Viewer } from "./viewer.ts";

describe("layer switches", () => {
  const started = () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 100, key: true, timestamp: 9_000, pictureId: 5, tl0: 5 });
    return viewer;
  };

  test("the current layer is forwarded until the keyframe of the other one, and not after it", () => {
    const viewer = started();
    viewer.forwarder.setTarget(2);
    expect(viewer.forwarder.wantsKeyframe).toBe(true);
    expect(viewer.feed(2, { extended: 60_000 })).toBeUndefined();
    expect(viewer.feed(0, { extended: 101, timestamp: 12_000 })?.seq).toBe(1_001);
    viewer.nowMs += 66;
    expect(viewer.feed(2, { extended: 60_001, key: true, timestamp: 777 })?.seq).toBe(1_002);
    expect(viewer.forwarder.currentLayer).toBe(2);
    expect(viewer.feed(0, { extended: 102, timestamp: 15_000 })).toBeUndefined();
    expect(viewer.feed(2, { extended: 60_002, timestamp: 777 })?.seq).toBe(1_003);
  });

  test("a keyframe of a layer that is neither forwarded nor requested has no effect", () => {
    const viewer = started();
    viewer.forwarder.setTarget(2);
    expect(viewer.feed(1, { extended: 1, key: true })).toBeUndefined();
    expect(viewer.forwarder.currentLayer).toBe(0);
  });

  test("late packets of before the switch are not forwarded, of either layer", () => {
    const viewer = started();
    viewer.forwarder.setTarget(1);
    viewer.feed(0, { extended: 102 });
    viewer.feed(1, { extended: 500, key: true });
    expect(viewer.feed(0, { extended: 101 })).toBeUndefined();
    expect(viewer.feed(1, { extended: 499 })).toBeUndefined();
    expect(viewer.feed(1, { extended: 501 })?.seq).toBe(1_004);
  });

  test("picture ids stay continuous over the switch", () => {
    const viewer = started();
    viewer.forwarder.setTarget(1);
    viewer.feed(0, { extended: 101, pictureId: 6, tl0: 6 });
    expect(viewer.feed(1, { extended: 500, key: true, pictureId: 0x7fff, tl0: 255 })).toMatchObject({ id: 7, tl0: 7 });
    expect(viewer.feed(1, { extended: 501, pictureId: 0, tl0: 0 })).toMatchObject({ id: 8, tl0: 8 });
  });

  test("a late packet of an older frame does not turn the picture ids back", () => {
    const viewer = started();
    viewer.feed(0, { extended: 102, pictureId: 7, tl0: 7 });
    expect(viewer.feed(0, { extended: 101, pictureId: 6, tl0: 6 })).toMatchObject({ id: 6, tl0: 6 });
    viewer.forwarder.setTarget(1);
    expect(viewer.feed(1, { extended: 1, key: true, pictureId: 99, tl0: 99 })).toMatchObject({ id: 8, tl0: 8 });
  });

  test("with sender reports of both layers the timestamp is exact, whatever the network did", () => {
    const viewer = started();
    // The same moment is 9,000 on layer 0 and 4,000,000,000 on layer 1.
    viewer.forwarder.setSenderReport(0, { ntpMs: 50_000, rtpTimestamp: 9_000 });
    viewer.forwarder.setSenderReport(1, { ntpMs: 50_500, rtpTimestamp: (4_000_000_000 + 45_000) >>> 0 });
    viewer.forwarder.setTarget(1);
    viewer.nowMs += 150;
    const out = viewer.feed(1, { extended: 1, key: true, timestamp: (4_000_000_000 + 9_000) >>> 0 });
    expect(out?.ts).toBe(500_000 + 9_000);
  });

  test("without sender reports the timestamp advances by the time that has passed", () => {
    const viewer = started();
    viewer.forwarder.setTarget(1);
    viewer.nowMs += 100;
    expect(viewer.feed(1, { extended: 1, key: true, timestamp: 123 })?.ts).toBe(500_000 + 9_000);
  });

  test("the elapsed time is counted from the first packet of a frame, not from its last", () => {
    const viewer = started();
    viewer.nowMs += 40;
    viewer.feed(0, { extended: 101, timestamp: 9_000, marker: true });
    viewer.forwarder.setTarget(1);
    viewer.nowMs += 60;
    expect(viewer.feed(1, { extended: 1, key: true, timestamp: 123 })?.ts).toBe(500_000 + 9_000);
  });

  test("the timestamp increases even if the new layer's keyframe has the same capture time as the last frame", () => {
    const viewer = started();
    viewer.forwarder.setSenderReport(0, { ntpMs: 50_000, rtpTimestamp: 9_000 });
    viewer.forwarder.setSenderReport(1, { ntpMs: 50_000, rtpTimestamp: 70_000 });
    viewer.forwarder.setTarget(1);
    viewer.nowMs += 5;
    expect(viewer.feed(1, { extended: 1, key: true, timestamp: 70_000 })?.ts).toBe(500_001);
  });

  test("an absurd sender report does not shift the video by seconds", () => {
    const viewer = started();
    viewer.forwarder.setSenderReport(0, { ntpMs: 50_000, rtpTimestamp: 9_000 });
    viewer.forwarder.setSenderReport(1, { ntpMs: 90_000, rtpTimestamp: 70_000 });
    viewer.forwarder.setTarget(1);
    viewer.nowMs += 20;
    expect(viewer.feed(1, { extended: 1, key: true, timestamp: 70_000 })?.ts).toBe(500_000 + 1_800);
  });

  test("when a keyframe's first packet comes late, the packets after it are forwarded again with fitting sequence numbers", () => {
    const viewer = started();
    viewer.forwarder.setTarget(1);
    expect(viewer.feed(1, { extended: 501, timestamp: 5 })).toBeUndefined();
    const before = viewer.forwarder.switches;
    expect(viewer.feed(1, { extended: 500, key: true, timestamp: 5 })?.seq).toBe(1_001);
    expect(viewer.forwarder.switches).toBe(before + 1);
    expect(viewer.feed(1, { extended: 501, timestamp: 5 })?.seq).toBe(1_002);
  });
});
