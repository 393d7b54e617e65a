import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createTarget, type FanOutTransport } from "../../../src/sfu/packet/fan-out.ts";
import { NackGenerator } from "../../../src/sfu/packet/nack-generator.ts";
import { NackResponder } from "../../../src/sfu/packet/nack-responder.ts";
import { PacketRing } from "../../../src/sfu/packet/packet-ring.ts";
import { RtpView } from "../../../src/sfu/packet/rtp.ts";
import { OutgoingExtensions } from "../../../src/sfu/packet/rtp-extensions.ts";
import { RtxStream, unwrapRtx } from "../../../src/sfu/packet/rtx.ts";
import { SrtpSender } from "../../../src/sfu/packet/srtp.ts";
import { rtpPacket } from "./packets.ts";

describe("asking a publisher again", () => {
  const feed = (generator: NackGenerator, sequences: number[], nowMs = 0) => {
    for (const sequence of sequences) generator.receive(sequence & 0xffff, nowMs);
  };

  test("only what is missing is asked for, and only after a moment for reordering", () => {
    const generator = new NackGenerator();
    feed(generator, [1, 2, 5]);
    expect(generator.takeDue(9)).toEqual([]);
    expect(generator.takeDue(10)).toEqual([3, 4]);
    feed(generator, [3], 20);
    generator.setRtt(50);
    expect(generator.takeDue(200)).toEqual([4]);
    expect(generator).toMatchObject({ requested: 3, recovered: 1, missing: 1 });
  });

  test("a packet that is news is told from one that was here before", () => {
    const generator = new NackGenerator();
    const news = [10, 10, 12, 11, 11, 9, 13, 3_000, 100].map((sequence) => generator.receive(sequence, 0));
    expect(news).toEqual([true, false, true, true, false, false, true, true, false]);
  });

  test("packets merely out of order are never asked for", () => {
    const generator = new NackGenerator();
    feed(generator, [1, 3], 0);
    feed(generator, [2], 5);
    expect(generator.takeDue(1_000)).toEqual([]);
    expect(generator.requested).toBe(0);
  });

  test("the wrap is a sequence like any other", () => {
    const generator = new NackGenerator();
    feed(generator, [65_533, 1]);
    expect(generator.takeDue(10)).toEqual([65_534, 65_535, 0]);
    feed(generator, [65_535, 65_534, 0]);
    expect(generator.missing).toBe(0);
  });

  test("a loss exactly at 65535 is noticed, cycle after cycle", () => {
    const generator = new NackGenerator();
    let found = 0;
    for (let extended = 0; extended < 65_536 * 3; extended++) {
      if ((extended & 0xffff) === 65_535) continue;
      generator.receive(extended & 0xffff, extended);
      found += generator.takeDue(extended + 10).filter((sequence) => sequence === 65_535).length;
      if (found > 0 && generator.missing > 0) generator.receive(65_535, extended);
    }
    expect(found).toBeGreaterThanOrEqual(2);
  });

  test("requests are repeated about once a round trip, more slowly each time, and given up within a second", () => {
    const generator = new NackGenerator();
    generator.setRtt(80);
    feed(generator, [1, 3]);
    const times: number[] = [];
    for (let now = 0; now < 3_000; now++) if (generator.takeDue(now).length > 0) times.push(now);
    const gaps = times.slice(1).map((time, i) => time - (times[i] as number));
    expect(gaps.every((gap) => gap >= 80 && gap <= 251)).toBe(true);
    expect(gaps).toEqual([...gaps].sort((a, b) => a - b));
    expect(times.length).toBeLessThanOrEqual(10);
    expect(times.at(-1)).toBeLessThan(1_000);
    expect(generator.missing).toBe(0);
    expect(generator.takeKeyframeRequest()).toBe(true);
    expect(generator.takeKeyframeRequest()).toBe(false);
  });

  test("on a short path ten requests are enough, long before the second is over", () => {
    const generator = new NackGenerator();
    generator.setRtt(5);
    feed(generator, [1, 3]);
    const times: number[] = [];
    for (let now = 0; now < 2_000; now++) if (generator.takeDue(now).length > 0) times.push(now);
    expect(times).toHaveLength(10);
    expect(times[1]).toBe(30);
    expect(times.at(-1)).toBeLessThan(300);
  });

  test("a packet given up on before the last keyframe calls for no other", () => {
    const generator = new NackGenerator();
    feed(generator, [1, 3, 4]);
    generator.keyframeReceived(4);
    for (let now = 0; now < 2_000; now += 10) generator.takeDue(now);
    expect(generator.abandoned).toBe(1);
    expect(generator.takeKeyframeRequest()).toBe(false);
  });

  test("an outage is not asked for packet by packet: a keyframe is", () => {
    const generator = new NackGenerator();
    feed(generator, [1, 2_000]);
    expect(generator.takeDue(1_000)).toEqual([]);
    expect(generator.takeKeyframeRequest()).toBe(true);
    feed(generator, [2_002], 1_990);
    expect(generator.takeDue(2_000)).toEqual([2_001]);
  });

  test("agrees with a brute-force model over any loss and reordering, wherever it starts", () => {
    fc.assert(
      fc.property(
        fc.nat(65_535),
        fc.array(fc.record({ lost: fc.boolean(), lateBy: fc.nat(6) }), { minLength: 2, maxLength: 150 }),
        (start, fates) => {
          const arrivals = fates
            .map(({ lost, lateBy }, i) => ({ extended: start + i, at: i + lateBy, lost }))
            .filter(({ lost }, i) => !lost || i === 0)
            .sort((a, b) => a.at - b.at || a.extended - b.extended);
          const generator = new NackGenerator();
          const seen = new Set<number>();
          const first = arrivals[0]?.extended ?? 0;
          let highest = first;
          for (const { extended } of arrivals) {
            generator.receive(extended & 0xffff, 0);
            seen.add(extended);
            highest = Math.max(highest, extended);
          }
          const expected: number[] = [];
          for (let extended = first + 1; extended < highest; extended++) {
            if (!seen.has(extended)) expected.push(extended & 0xffff);
          }
          expect(generator.takeDue(10).sort((a, b) => a - b)).toEqual(expected.sort((a, b) => a - b));
        },
      ),
      { seed: 7, numRuns: 500 },
    );
  });
});

describe("the ring of a published layer", () => {
  const view = new RtpView();

  test("gives back a packet of the last second, and none older", () => {
    const ring = new PacketRing();
    const packet = rtpPacket({ sequenceNumber: 7 });
    ring.put(7, packet, packet.length, 100);
    expect(ring.read(7, 1_100, view)).toBe(true);
    expect(view.sequenceNumber).toBe(7);
    expect(ring.read(7, 1_101, view)).toBe(false);
    expect(ring.read(8, 100, view)).toBe(false);
  });

  test("grows to hold a second at any rate, and no further than 2,048 packets", () => {
    const ring = new PacketRing();
    const packet = rtpPacket();
    for (let i = 65_000; i < 66_000; i++) ring.put(i, packet, packet.length, i);
    for (let i = 65_000; i < 66_000; i++) expect(ring.read(i, 66_000, view)).toBe(true);
    expect(ring.capacity).toBe(1_024);
    for (let i = 0; i < 5_000; i++) ring.put(70_000 + i, packet, packet.length, 70_000);
    expect(ring.capacity).toBe(2_048);
    expect(ring.read(74_999, 70_000, view)).toBe(true);
    expect(ring.read(70_000, 70_000, view)).toBe(false);
  });

  test("a slow layer stays small", () => {
    const ring = new PacketRing();
    const packet = rtpPacket();
    for (let i = 0; i < 10_000; i++) ring.put(i, packet, packet.length, i * 20);
    expect(ring.capacity).toBe(64);
  });

  test("a straggler does not push out a newer packet, and sweeping lets go of the old", () => {
    const ring = new PacketRing();
    const packet = rtpPacket();
    for (let i = 0; i < 2_048; i++) ring.put(10_000 + i, packet, packet.length, 0);
    ring.put(10_000 - 2_048, packet, packet.length, 0);
    expect(ring.read(10_000, 0, view)).toBe(true);
    expect(ring.read(10_000 - 2_048, 0, view)).toBe(false);
    ring.sweep(2_000);
    expect(ring.read(12_047, 0, view)).toBe(false);
  });
});

describe("answering a viewer's NACK", () => {
  const key = { profile: "AEAD_AES_128_GCM", key: new Uint8Array(16), salt: new Uint8Array(12) } as const;
  const transport: FanOutTransport = {
    srtp: new SrtpSender(key),
    address: "",
    port: 0,
    deliver: undefined,
    seated: new Set(),
  };
  const target = () => createTarget(transport, new OutgoingExtensions({}));
  const view = new RtpView();

  const sentOnce = () => {
    const ring = new PacketRing();
    const responder = new NackResponder();
    for (let i = 0; i < 10; i++) {
      const packet = rtpPacket({ sequenceNumber: 100 + i, timestamp: i });
      ring.put(100 + i, packet, packet.length, 0);
      const out = target();
      Object.assign(out, { ssrc: 5, sequenceNumber: (65_530 + i) & 0xffff, timestamp: 9_000 + i, payloadType: 45 });
      Object.assign(out, { marker: i === 9, sentAtMs: 1_000 + i, transportSequence: 50 + i });
      out.prefix.set([1, 2, i]);
      out.prefixLength = 3;
      responder.record(out, ring, 100 + i);
    }
    return responder;
  };

  test("the packet comes back with the very header it had, on either side of the wrap", () => {
    const responder = sentOnce();
    for (let i = 0; i < 10; i++) {
      const out = target();
      expect(responder.answer((65_530 + i) & 0xffff, 100, 20, view, out)).toBe(true);
      expect(view.sequenceNumber).toBe(100 + i);
      expect(out).toMatchObject({
        ssrc: 5,
        sequenceNumber: (65_530 + i) & 0xffff,
        timestamp: 9_000 + i,
        payloadType: 45,
        marker: i === 9,
        sentAtMs: 1_000 + i,
        transportSequence: 50 + i,
        originalSequenceNumber: -1,
        prefixLength: 3,
      });
      expect(out.prefix[2]).toBe(i);
    }
  });

  test("over RTX it goes out on the other stream, with the original number inside", () => {
    const responder = sentOnce();
    const stream = new RtxStream(77, 65_535);
    const out = target();
    expect(responder.answer(65_531, 100, 20, view, out, { stream, payloadType: 97 })).toBe(true);
    expect(out).toMatchObject({ ssrc: 77, sequenceNumber: 65_535, payloadType: 97, originalSequenceNumber: 65_531 });
    expect(responder.answer(2, 100, 20, view, out, { stream, payloadType: 97 })).toBe(true);
    expect(out).toMatchObject({ sequenceNumber: 0, originalSequenceNumber: 2, timestamp: 9_008 });
  });

  test("the last packets serve as padding for a probe, over RTX only, in turn", () => {
    const responder = sentOnce();
    const rtx = { stream: new RtxStream(77, 1), payloadType: 97 };
    const originals = new Set<number>();
    for (let i = 0; i < 30; i++) {
      const out = target();
      expect(responder.repeatRecent(100, view, out, rtx)).toBe(true);
      expect(out).toMatchObject({ ssrc: 77, sequenceNumber: 1 + i, payloadType: 97 });
      originals.add(out.originalSequenceNumber);
    }
    expect(originals.size).toBe(10);
    expect(responder.repeatRecent(5_000, view, target(), rtx)).toBe(false);
    expect(new NackResponder().repeatRecent(0, view, target(), rtx)).toBe(false);
  });

  test("not twice within a round trip, and not for ever", () => {
    const responder = sentOnce();
    const ask = (nowMs: number) => responder.answer(65_530, nowMs, 100, view, target());
    expect([ask(0), ask(50), ask(79), ask(80), ask(81)]).toEqual([true, false, false, true, false]);
    expect([160, 240, 320, 400, 480].map(ask)).toEqual([true, true, true, true, false]);
    expect(responder.resent).toBe(6);
  });

  test("what was never sent, is gone, or belongs to another publisher is not answered", () => {
    const responder = sentOnce();
    expect(responder.answer(4, 0, 10, view, target())).toBe(false);
    expect(responder.answer(65_530 - 512, 0, 10, view, target())).toBe(false);
    expect(responder.answer(65_530, 1_001, 10, view, target())).toBe(false);
    responder.clear();
    expect(responder.answer(65_531, 0, 10, view, target())).toBe(false);
    expect(responder.unanswered).toBe(4);
  });
});

describe("RTX packets", () => {
  test("any retransmission turns back into the packet it repeats", () => {
    fc.assert(
      fc.property(
        fc.nat(65_535),
        fc.uint8Array({ minLength: 1, maxLength: 200 }),
        fc.nat(3),
        fc.boolean(),
        (sequence, payload, words, marker) => {
          const shape = { timestamp: 5, extensionWords: words, marker };
          const original = rtpPacket({ ...shape, sequenceNumber: sequence, ssrc: 1, payloadType: 96, payload });
          const wrapped = rtpPacket({
            ...shape,
            sequenceNumber: 9,
            ssrc: 2,
            payloadType: 97,
            payload: Uint8Array.of(sequence >> 8, sequence & 0xff, ...payload),
          });
          const view = new RtpView();
          view.parse(wrapped);
          expect(unwrapRtx(view, 1, 96)).toBe(true);
          expect(view.data.slice(0, view.length)).toEqual(original);
          expect(view.sequenceNumber).toBe(sequence);
        },
      ),
      { seed: 8, numRuns: 300 },
    );
  });

  test("padding sent to probe the bandwidth carries nothing", () => {
    const view = new RtpView();
    for (const payload of [0, 1]) {
      view.parse(rtpPacket({ payload, padding: 100 }));
      expect(unwrapRtx(view, 1, 96)).toBe(false);
    }
  });
});
