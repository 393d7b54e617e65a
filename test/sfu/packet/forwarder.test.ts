import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import type { MediaCodec } from "../../../src/sfu/packet/codec/keyframe.ts";
import { startsKeyframe } from "../../../src/sfu/packet/codec/keyframe.ts";
import { Vp8Descriptor } from "../../../src/sfu/packet/codec/vp8.ts";
import { createTarget, type FanOutTarget, type FanOutTransport } from "../../../src/sfu/packet/fan-out.ts";
import { Forwarder, firstSequence, PAUSED } from "../../../src/sfu/packet/forwarder.ts";
import { RtpView } from "../../../src/sfu/packet/rtp.ts";
import { OutgoingExtensions } from "../../../src/sfu/packet/rtp-extensions.ts";
import { sequenceDiff, timestampDiff } from "../../../src/sfu/packet/sequence.ts";
import { SrtpSender } from "../../../src/sfu/packet/srtp.ts";
import { rtpPacket } from "./packets.ts";

const KEY = { profile: "AEAD_AES_128_GCM", key: new Uint8Array(16), salt: new Uint8Array(12) } as const;
const TRANSPORT: FanOutTransport = {
  srtp: new SrtpSender(KEY),
  address: "",
  port: 0,
  deliver: undefined,
  seated: new Set(),
};

interface Frame {
  extended: number;
  timestamp?: number;
  key?: boolean;
  marker?: boolean;
  empty?: boolean;
  pictureId?: number;
  tl0?: number;
}

/** One viewer, fed by hand. */
class Viewer {
  readonly forwarder: Forwarder;
  readonly target: FanOutTarget = createTarget(TRANSPORT, new OutgoingExtensions({}));
  nowMs = 10_000;

  constructor(
    readonly codec: MediaCodec = "vp8",
    first = 1_000,
  ) {
    this.forwarder = new Forwarder({
      ssrc: 42,
      clockRate: codec === "audio" ? 48_000 : 90_000,
      codec,
      payloadType: 45,
      firstSequence: first,
      firstTimestamp: 500_000,
    });
  }

  /** The outgoing packet, or undefined when it was not forwarded. */
  feed(layer: number, frame: Frame): { seq: number; ts: number; marker: boolean; id: number; tl0: number } | undefined {
    const id = frame.pictureId ?? 0;
    const payload = frame.empty
      ? new Uint8Array(0)
      : Uint8Array.of(0x90, 0xe0, 0x80 | (id >> 8), id & 0xff, frame.tl0 ?? 0, 0, frame.key ? 0x10 : 0x11, 0, 0);
    const view = new RtpView();
    view.parse(
      rtpPacket({
        sequenceNumber: frame.extended & 0xffff,
        timestamp: (frame.timestamp ?? 0) >>> 0,
        marker: frame.marker ?? false,
        payload,
        padding: frame.empty ? 20 : 0,
      }),
    );
    const vp8 = new Vp8Descriptor();
    const keyframe = startsKeyframe(this.codec, view, vp8);
    const packet = { view, layer, extended: frame.extended, keyframe, vp8 };
    if (!this.forwarder.forward(packet, this.target, this.nowMs)) return undefined;
    const { sequenceNumber: seq, timestamp: ts, marker, prefix } = this.target;
    return {
      seq,
      ts,
      marker,
      id: (((prefix[2] as number) << 8) | (prefix[3] as number)) & 0x7fff,
      tl0: prefix[4] as number,
    };
  }
}

describe("starting", () => {
  test("the first number is random in 1000 … 32767", () => {
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

  test("nothing goes out while paused", () => {
    const viewer = new Viewer();
    expect(viewer.forwarder.wantsKeyframe).toBe(false);
    expect(viewer.feed(0, { extended: 1, key: true })).toBeUndefined();
  });

  test("our SSRC and payload type, never the publisher's", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 1, key: true });
    expect(viewer.target).toMatchObject({ ssrc: 42, payloadType: 45, originalSequenceNumber: -1 });
  });
});

describe("gaps", () => {
  test("what is lost on the way leaves its gap, and fills it when it comes late", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    const out = [65_534, 65_536, 65_535, 65_538, 65_537].map(
      (extended, i) => viewer.feed(0, { extended, key: i === 0 })?.seq,
    );
    expect(out).toEqual([1_000, 1_002, 1_001, 1_004, 1_003]);
  });

  test("what is not forwarded leaves none", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    const empty = new Set([2, 3, 6]);
    const out = [1, 2, 3, 4, 5, 6, 7].map(
      (extended) => viewer.feed(0, { extended, key: extended === 1, empty: empty.has(extended) })?.seq,
    );
    expect(out).toEqual([1_000, undefined, undefined, 1_001, 1_002, undefined, 1_003]);
  });

  test("a late packet of before a dropped one gets its own number", () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 1, key: true });
    expect(viewer.feed(0, { extended: 3 })?.seq).toBe(1_002);
    expect(viewer.feed(0, { extended: 4, empty: true })).toBeUndefined();
    expect(viewer.feed(0, { extended: 5 })?.seq).toBe(1_003);
    expect(viewer.feed(0, { extended: 2 })?.seq).toBe(1_001);
  });

  test("an empty packet for which a gap was left is sent, so that nobody waits for it", () => {
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

describe("layer switches", () => {
  const started = () => {
    const viewer = new Viewer();
    viewer.forwarder.setTarget(0);
    viewer.feed(0, { extended: 100, key: true, timestamp: 9_000, pictureId: 5, tl0: 5 });
    return viewer;
  };

  test("the current layer goes on until the other's keyframe, then stops at once", () => {
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

  test("a keyframe of a layer that is neither current nor wanted changes nothing", () => {
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

  test("picture ids run on over the switch", () => {
    const viewer = started();
    viewer.forwarder.setTarget(1);
    viewer.feed(0, { extended: 101, pictureId: 6, tl0: 6 });
    expect(viewer.feed(1, { extended: 500, key: true, pictureId: 0x7fff, tl0: 255 })).toMatchObject({ id: 7, tl0: 7 });
    expect(viewer.feed(1, { extended: 501, pictureId: 0, tl0: 0 })).toMatchObject({ id: 8, tl0: 8 });
  });

  test("a late packet of an older picture does not set the ids back", () => {
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

  test("without reports the time that passed decides", () => {
    const viewer = started();
    viewer.forwarder.setTarget(1);
    viewer.nowMs += 100;
    expect(viewer.feed(1, { extended: 1, key: true, timestamp: 123 })?.ts).toBe(500_000 + 9_000);
  });

  test("time passes from the first packet of a frame, not from its last", () => {
    const viewer = started();
    viewer.nowMs += 40;
    viewer.feed(0, { extended: 101, timestamp: 9_000, marker: true });
    viewer.forwarder.setTarget(1);
    viewer.nowMs += 60;
    expect(viewer.feed(1, { extended: 1, key: true, timestamp: 123 })?.ts).toBe(500_000 + 9_000);
  });

  test("a keyframe of the very moment already shown still moves time forward", () => {
    const viewer = started();
    viewer.forwarder.setSenderReport(0, { ntpMs: 50_000, rtpTimestamp: 9_000 });
    viewer.forwarder.setSenderReport(1, { ntpMs: 50_000, rtpTimestamp: 70_000 });
    viewer.forwarder.setTarget(1);
    viewer.nowMs += 5;
    expect(viewer.feed(1, { extended: 1, key: true, timestamp: 70_000 })?.ts).toBe(500_001);
  });

  test("an absurd sender report does not throw the picture seconds off", () => {
    const viewer = started();
    viewer.forwarder.setSenderReport(0, { ntpMs: 50_000, rtpTimestamp: 9_000 });
    viewer.forwarder.setSenderReport(1, { ntpMs: 90_000, rtpTimestamp: 70_000 });
    viewer.forwarder.setTarget(1);
    viewer.nowMs += 20;
    expect(viewer.feed(1, { extended: 1, key: true, timestamp: 70_000 })?.ts).toBe(500_000 + 1_800);
  });

  test("a keyframe whose first packet came late: the packets after it are fed again and fit", () => {
    const viewer = started();
    viewer.forwarder.setTarget(1);
    expect(viewer.feed(1, { extended: 501, timestamp: 5 })).toBeUndefined();
    const before = viewer.forwarder.switches;
    expect(viewer.feed(1, { extended: 500, key: true, timestamp: 5 })?.seq).toBe(1_001);
    expect(viewer.forwarder.switches).toBe(before + 1);
    expect(viewer.feed(1, { extended: 501, timestamp: 5 })?.seq).toBe(1_002);
  });
});

describe("pauses and other publishers", () => {
  test("a pause leaves no gap and as much time as it took", () => {
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

  test("a publisher whose clock stood still while muted is moved on by the real time", () => {
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

  test("another publisher takes the place: numbers, time and picture ids run on", () => {
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

  test("a layer that goes on under another SSRC, with lower numbers and another clock", () => {
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

  test("nor do they serve the layers of the next publisher, before it has sent its own", () => {
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

  test("any history of switches, pauses and sources: outgoing numbers by one, time never back", () => {
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
              // Every batch starts its layer anew: as a publisher's encoder would after a restart.
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
