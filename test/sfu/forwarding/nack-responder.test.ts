import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createTarget } from "../../../src/sfu/forwarding/fan-out-target.ts";
import { NackResponder } from "../../../src/sfu/forwarding/nack-responder.ts";
import { PacketRing } from "../../../src/sfu/wire/rtp/packet-ring.ts";
import { RtpView } from "../../../src/sfu/wire/rtp/rtp.ts";
import { OutgoingExtensions } from "../../../src/sfu/wire/rtp/rtp-extensions.ts";
import { RtxStream, unwrapRtx } from "../../../src/sfu/wire/rtp/rtx.ts";
import { rtpPacket } from "../packets.ts";
import { TRANSPORT } from "./viewer.ts";

describe("answering a viewer's NACK", () => {
  const target = () => createTarget(TRANSPORT, new OutgoingExtensions({}));
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

  test("a retransmission over RTX has the SSRC and payload type of the RTX stream and carries the original sequence number", () => {
    const responder = sentOnce();
    const stream = new RtxStream(77, 65_535);
    const out = target();
    expect(responder.answer(65_531, 100, 20, view, out, { stream, payloadType: 97 })).toBe(true);
    expect(out).toMatchObject({ ssrc: 77, sequenceNumber: 65_535, payloadType: 97, originalSequenceNumber: 65_531 });
    expect(responder.answer(2, 100, 20, view, out, { stream, payloadType: 97 })).toBe(true);
    expect(out).toMatchObject({ sequenceNumber: 0, originalSequenceNumber: 2, timestamp: 9_008 });
  });

  test("packets serve as padding for a probe, over RTX only, however often; and are sent again afterwards", () => {
    const responder = sentOnce();
    const rtx = { stream: new RtxStream(77, 1), payloadType: 97 };
    for (let i = 0; i < 30; i++) {
      const out = target();
      expect(responder.repeat(65_531, 100, view, out, rtx)).toBe(true);
      expect(out).toMatchObject({ ssrc: 77, sequenceNumber: 1 + i, payloadType: 97, originalSequenceNumber: 65_531 });
    }
    expect(responder.resent).toBe(0);
    expect(responder.answer(65_531, 100, 20, view, target(), rtx)).toBe(true);
    expect(responder.repeat(65_531, 5_000, view, target(), rtx)).toBe(false);
    expect(new NackResponder().repeat(0, 0, view, target(), rtx)).toBe(false);
    expect(responder.unanswered).toBe(0);
  });

  test("all packets of one second are remembered at any rate, in no more memory than they need", () => {
    for (const [perSecond, capacity] of [
      [10, 16],
      [100, 128],
      [500, 512],
    ] as const) {
      const ring = new PacketRing();
      const responder = new NackResponder();
      const sent = 65_000;
      for (let i = 0; i < 3 * perSecond; i++) {
        const nowMs = (i * 1_000) / perSecond;
        const packet = rtpPacket({ sequenceNumber: (sent + i) & 0xffff });
        ring.put(sent + i, packet, packet.length, nowMs);
        const out = target();
        Object.assign(out, { sequenceNumber: (sent + i) & 0xffff, timestamp: i, sentAtMs: nowMs });
        responder.record(out, ring, sent + i);
        // A packet that may still be requested is not forgotten when the memory grows.
        if (i === 5) expect(responder.answer((sent + 5) & 0xffff, nowMs, 2_000, view, target())).toBe(true);
        if (i === 9) expect(responder.answer((sent + 5) & 0xffff, nowMs, 2_000, view, target())).toBe(false);
      }
      const last = 3 * perSecond - 1;
      for (let i = last - perSecond + 1; i <= last; i++) {
        const out = target();
        expect([i, responder.answer((sent + i) & 0xffff, 3_000, 20, view, out)]).toEqual([i, true]);
        expect(out.timestamp).toBe(i);
      }
      expect(responder.capacity).toBe(capacity);
    }
  });

  test("a packet is not sent again twice within a round trip, and not for ever", () => {
    const responder = sentOnce();
    const ask = (nowMs: number) => responder.answer(65_530, nowMs, 100, view, target());
    expect([ask(0), ask(50), ask(79), ask(80), ask(81)]).toEqual([true, false, false, true, false]);
    expect([160, 240, 320, 400, 480].map(ask)).toEqual([true, true, true, true, false]);
    expect(responder.resent).toBe(6);
  });

  test("a NACK is not answered for packets that were never sent, are gone, or belong to another publisher", () => {
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
