import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { firstSequence } from "../../../src/sfu/forwarding/forwarder.ts";
import { Vp8Descriptor } from "../../../src/sfu/wire/codec/vp8.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import { sequenceDiff } from "../../../src/sfu/wire/rtp/sequence.ts";
import { rtpPacket } from "../packets.ts";
import { Viewer } from "./viewer.ts";

describe("starting", () => {
  test("the first RTP sequence number is random between 1000 and 32767", () => {
    expect(firstSequence(() => 0)).toBe(1_000);
    expect(firstSequence(() => 0.999999999)).toBe(32_767);
  });

  test("video begins with a keyframe, audio with the next packet", () => {
    const video = new Viewer();
    video.forwarder.setTarget(0);
    expect(video.forwarder.wantsKeyframe).toBe(true);
    expect(video.feed(0, { extended: 7 })).toBeUndefined();
    expect(video.feed(0, { extended: 8, key: true, timestamp: 77 })).toMatchObject({ seq: 1_000, ts: 500_000 });
    expect(video.forwarder.wantsKeyframe).toBe(false);
    const audio = new Viewer("audio");
    audio.forwarder.setTarget(0);
    expect(audio.forwarder.wantsKeyframe).toBe(false);
    expect(audio.feed(0, { extended: 7, timestamp: 5 })).toMatchObject({ seq: 1_000, ts: 500_000, marker: true });
    expect(audio.feed(0, { extended: 8, timestamp: 965 })).toMatchObject({ seq: 1_001, ts: 500_960, marker: false });
  });

  test("nothing is forwarded while paused", () => {
    const viewer = new Viewer();
    expect(viewer.forwarder.wantsKeyframe).toBe(false);
    expect(viewer.feed(0, { extended: 1, key: true })).toBeUndefined();
  });

  test("packets have the subscriber's SSRC and payload type, never the publisher's", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 1, key: true });
    expect(viewer.target).toMatchObject({ ssrc: 42, payloadType: 45, originalSequenceNumber: -1 });
  });
});

describe("gaps in the sequence numbers", () => {
  test("a lost packet leaves a gap, which it fills when it arrives late", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    const out = [65_534, 65_536, 65_535, 65_538, 65_537].map(
      (extended, i) => viewer.feed(0, { extended, key: i === 0 })?.seq,
    );
    expect(out).toEqual([1_000, 1_002, 1_001, 1_004, 1_003]);
  });

  test("a packet that is not forwarded leaves no gap", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    const empty = new Set([2, 3, 6]);
    const out = [1, 2, 3, 4, 5, 6, 7].map(
      (extended) => viewer.feed(0, { extended, key: extended === 1, empty: empty.has(extended) })?.seq,
    );
    expect(out).toEqual([1_000, undefined, undefined, 1_001, 1_002, undefined, 1_003]);
  });

  test("a late packet gets its own number although a packet after it was dropped", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 1, key: true });
    expect(viewer.feed(0, { extended: 3 })?.seq).toBe(1_002);
    expect(viewer.feed(0, { extended: 4, empty: true })).toBeUndefined();
    expect(viewer.feed(0, { extended: 5 })?.seq).toBe(1_003);
    expect(viewer.feed(0, { extended: 2 })?.seq).toBe(1_001);
  });

  test("an empty packet is forwarded if later packets have left a sequence number free for it", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 1, key: true });
    viewer.feed(0, { extended: 3 });
    expect(viewer.feed(0, { extended: 2, empty: true })?.seq).toBe(1_001);
    expect(viewer.target.prefixLength).toBe(0);
  });

  test("a duplicate is forwarded once", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 1, key: true });
    viewer.feed(0, { extended: 3 });
    expect(viewer.feed(0, { extended: 3 })).toBeUndefined();
    expect(viewer.feed(0, { extended: 2 })?.seq).toBe(1_001);
    expect(viewer.feed(0, { extended: 2 })).toBeUndefined();
    expect(viewer.feed(0, { extended: 1, key: true })).toBeUndefined();
  });

  test("any mix of loss, reordering, duplicates and empty packets: no number twice, order kept, no gap without a loss", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 60_000, max: 70_000 }),
        fc.array(
          fc.record({ lost: fc.nat(9), empty: fc.nat(4), late: fc.oneof(fc.constant(0), fc.nat(8)), twice: fc.nat(9) }),
          {
            minLength: 5,
            maxLength: 300,
          },
        ),
        (start, fates) => {
          const viewer = new Viewer("h264");
          const forwarder = viewer.forwarder;
          forwarder.setTarget(0);
          const all = fates.map((fate, i) => ({ ...fate, extended: start + 1 + i, at: i + fate.late }));
          const arriving = all
            .filter(({ lost }) => lost > 0)
            .flatMap((p) => (p.twice === 0 ? [p, { ...p, at: p.at + 3 }] : [p]))
            .sort((a, b) => a.at - b.at);
          const view = new RtpView();
          const vp8 = new Vp8Descriptor();
          const send = (extended: number, empty: boolean, keyframe: boolean) => {
            view.parse(
              rtpPacket({ sequenceNumber: extended & 0xffff, payload: empty ? 0 : 5, padding: empty ? 4 : 0 }),
            );
            return forwarder.forward({ view, layer: 0, extended, keyframe, vp8 }, viewer.target, 0)
              ? viewer.target.sequenceNumber
              : undefined;
          };
          send(start, false, true);
          const sent = new Map<number, number>();
          for (const { extended, empty } of arriving) {
            const out = send(extended, empty === 0, false);
            if (out === undefined) continue;
            expect(sent.has(extended)).toBe(false);
            sent.set(extended, out);
          }
          const byInput = [...sent].sort((a, b) => a[0] - b[0]);
          for (let i = 1; i < byInput.length; i++) {
            const [input, out] = byInput[i] as [number, number];
            const [inputBefore, outBefore] = byInput[i - 1] as [number, number];
            const gap = sequenceDiff(out, outBefore);
            expect(gap).toBeGreaterThan(0);
            expect(gap).toBeLessThanOrEqual(input - inputBefore);
            // Between two forwarded packets only those may be missing that never came, or came late and empty.
            const unsent = all.filter((p) => p.extended > inputBefore && p.extended < input);
            const neverCame = unsent.filter((p) => p.lost === 0).length;
            expect(gap - 1).toBe(neverCame);
          }
          // With nothing lost, everything with a payload is there.
          for (const p of all) if (p.lost > 0 && p.empty > 0) expect(sent.has(p.extended)).toBe(true);
        },
      ),
      { seed: 12, numRuns: 300 },
    );
  });
});
