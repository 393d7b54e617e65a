import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { PAUSED } from "../../../src/sfu/forwarding/forwarder.ts";
import { sequenceDiff, timestampDiff } from "../../../src/sfu/wire/rtp/sequence.ts";
import { Viewer } from "./viewer.ts";

describe("pauses and other publishers", () => {
  test("a pause leaves no gap in sequence numbers, and advances the timestamp by its length", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 1, key: true, timestamp: 0 });
    viewer.forwarder.setTarget(PAUSED);
    expect(viewer.feed(0, { extended: 2, timestamp: 3_000 })).toBeUndefined();
    viewer.forwarder.setTarget(0);
    viewer.nowMs += 10_000;
    expect(viewer.feed(0, { extended: 300, timestamp: 897_000 })).toBeUndefined();
    expect(viewer.feed(0, { extended: 301, key: true, timestamp: 899_800 })).toMatchObject({
      seq: 1_001,
      ts: 500_000 + 899_800,
    });
  });

  test("if a publisher's clock stood still while muted, the timestamp advances by the real time", () => {
    const viewer = new Viewer("audio");
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 1, timestamp: 960 });
    viewer.forwarder.setTarget(PAUSED);
    viewer.forwarder.setTarget(0);
    viewer.nowMs += 30_000;
    expect(viewer.feed(0, { extended: 2, timestamp: 1_920 })).toMatchObject({
      seq: 1_001,
      ts: 500_000 + 30_000 * 48,
      marker: true,
    });
  });

  test("when another publisher takes the section, sequence numbers, timestamps and picture ids stay continuous", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 65_535, key: true, timestamp: 0xffffffff, pictureId: 100, tl0: 9 });
    viewer.forwarder.switchSource({ codec: "vp8", payloadType: 46, clockRate: 90_000 });
    expect(viewer.feed(0, { extended: 65_536 })).toBeUndefined();
    viewer.forwarder.setTarget(0);
    viewer.nowMs += 1_000;
    expect(viewer.feed(0, { extended: 4, timestamp: 9 })).toBeUndefined();
    const out = viewer.feed(0, { extended: 5, key: true, timestamp: 10, pictureId: 3, tl0: 200 });
    expect(out).toMatchObject({ seq: 1_001, ts: 500_000 + 90_000, id: 101, tl0: 10 });
    expect(viewer.target.payloadType).toBe(46);
  });

  test("a layer continues under another SSRC with lower sequence numbers and another clock", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 60_000, key: true, timestamp: 3_000_000_000, pictureId: 8 });
    viewer.forwarder.setSenderReport(0, { ntpMs: 1_000, rtpTimestamp: 3_000_000_000 });
    viewer.forwarder.layerRestarted(0);
    expect(viewer.forwarder.wantsKeyframe).toBe(true);
    viewer.nowMs += 200;
    expect(viewer.feed(0, { extended: 100, timestamp: 7 })).toBeUndefined();
    expect(viewer.feed(0, { extended: 101, key: true, timestamp: 7, pictureId: 1 })).toMatchObject({
      seq: 1_001,
      ts: 500_000 + 18_000,
      id: 9,
    });
    viewer.forwarder.layerRestarted(1);
    expect(viewer.feed(0, { extended: 102, timestamp: 3_007, pictureId: 2 })).toMatchObject({
      seq: 1_002,
      ts: 521_000,
    });
  });

  test("sender reports are forgotten with their publisher", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 1, key: true, timestamp: 0 });
    viewer.forwarder.setSenderReport(0, { ntpMs: 1_000, rtpTimestamp: 0 });
    viewer.forwarder.switchSource({ codec: "vp8", payloadType: 46, clockRate: 90_000 });
    viewer.forwarder.setSenderReport(0, { ntpMs: 1_100, rtpTimestamp: 45_000 });
    viewer.forwarder.setTarget(0);
    viewer.nowMs += 100;
    expect(viewer.feed(0, { extended: 1, key: true, timestamp: 54_000 })?.ts).toBe(500_000 + 9_000);
  });

  test("sender reports of one publisher are not used for the layers of the next", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 1, key: true, timestamp: 0 });
    viewer.forwarder.setSenderReport(0, { ntpMs: 1_000, rtpTimestamp: 0 });
    viewer.forwarder.switchSource({ codec: "vp8", payloadType: 46, clockRate: 90_000 });
    viewer.forwarder.setTarget(0);
    viewer.nowMs += 100;
    viewer.feed(0, { extended: 1, key: true, timestamp: 0 });
    viewer.forwarder.setSenderReport(1, { ntpMs: 1_000, rtpTimestamp: 0 });
    viewer.forwarder.setTarget(1);
    viewer.nowMs += 100;
    expect(viewer.feed(1, { extended: 1, key: true, timestamp: 27_000 })?.ts).toBe(500_000 + 18_000);
  });

  test("after any switches, pauses and sources, sequence numbers increase by one and timestamps never decrease", () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.record({
            action: fc.constantFrom("layer", "pause", "source", "none"),
            layer: fc.nat(2),
            packets: fc.integer({ min: 1, max: 30 }),
            seq: fc.nat(65_535),
            ts: fc.nat(0xffffffff),
          }),
          { minLength: 1, maxLength: 25 },
        ),
        (story) => {
          const viewer = new Viewer("vp8", 65_400);
          viewer.forwarder.setTarget(0);
          let last: { seq: number; ts: number; id: number } | undefined;
          for (const { action, layer, packets, seq, ts } of story) {
            if (action === "source") viewer.forwarder.switchSource({ codec: "vp8", payloadType: 1, clockRate: 90_000 });
            if (action === "pause") viewer.forwarder.setTarget(PAUSED);
            else viewer.forwarder.setTarget(layer);
            if (action === "pause") viewer.forwarder.setTarget(layer);
            for (let i = 0; i < packets; i++) {
              viewer.nowMs += 33;
              // Every batch starts its layer over, as a publisher's encoder does after a restart.
              const fresh = i === 0;
              if (fresh) viewer.forwarder.setTarget(PAUSED);
              viewer.forwarder.setTarget(layer);
              const out = viewer.feed(layer, {
                extended: seq + i,
                key: fresh,
                timestamp: (ts + i * 2_970) >>> 0,
                pictureId: (seq + i) & 0x7fff,
              });
              expect(out).toBeDefined();
              if (out === undefined) return;
              if (last !== undefined) {
                expect(sequenceDiff(out.seq, last.seq)).toBe(1);
                expect(timestampDiff(out.ts, last.ts)).toBeGreaterThan(0);
                expect(timestampDiff(out.ts, last.ts)).toBeLessThan(90_000);
                expect((out.id - last.id) & 0x7fff).toBe(1);
              }
              last = out;
            }
          }
        },
      ),
      { seed: 13, numRuns: 200 },
    );
  });
});
