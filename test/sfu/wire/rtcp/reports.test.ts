import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { createTarget } from "../../../../src/sfu/forwarding/fan-out-target.ts";
import { Forwarder } from "../../../../src/sfu/forwarding/forwarder.ts";
import { deriveSenderReport, receivedReport, SentReports } from "../../../../src/sfu/forwarding/sender-report.ts";
import { qualityOf, qualityScore } from "../../../../src/sfu/room/health.ts";
import { Vp8Descriptor } from "../../../../src/sfu/wire/codec/vp8.ts";
import { Reception } from "../../../../src/sfu/wire/rtcp/reception.ts";
import { compactNtp, msToCompact, ntpFromMs, ntpToMs } from "../../../../src/sfu/wire/rtp/ntp.ts";
import { RtpView } from "../../../../src/sfu/wire/rtp/rtp.ts";
import { OutgoingExtensions } from "../../../../src/sfu/wire/rtp/rtp-extensions.ts";
import { SrtpSender } from "../../../../src/sfu/wire/srtp/srtp.ts";
import { rtpPacket } from "../../packets.ts";

describe("reception [RFC 3550 A.3, A.8]", () => {
  test("losses are counted across the wrap, per interval and in total", () => {
    const reception = new Reception(7, 90_000);
    for (const sequence of [65_534, 65_535, 1, 2]) reception.receive(sequence, 0, 100, 0);
    expect(reception.takeReport(0)).toMatchObject({
      ssrc: 7,
      fractionLost: Math.floor(256 / 5),
      cumulativeLost: 1,
      highestSequence: 65_538,
    });
    for (const sequence of [3, 4, 5]) reception.receive(sequence, 0, 100, 0);
    expect(reception.takeReport(0)).toMatchObject({ fractionLost: 0, cumulativeLost: 1, highestSequence: 65_541 });
    expect(reception.bytes).toBe(700);
  });

  test("a recovered packet is no loss, a duplicate makes the number negative, not the fraction", () => {
    const reception = new Reception(7, 90_000);
    for (const sequence of [1, 3]) reception.receive(sequence, 0, 1, 0);
    reception.receive(2, 0, 1, 50, true);
    expect(reception.cumulativeLost).toBe(0);
    reception.receive(3, 0, 1, 0);
    expect(reception.takeReport(0)).toMatchObject({ cumulativeLost: -1, fractionLost: 0 });
  });

  test("a steady stream has no jitter, an unsteady one has, and retransmissions add none", () => {
    const even = new Reception(1, 48_000);
    for (let i = 0; i < 100; i++) even.receive(i, (0xffffff00 + i * 960) >>> 0, 1, 1_000 + i * 20);
    expect(even.jitterMs).toBeLessThan(0.001);
    const shaken = new Reception(1, 48_000);
    for (let i = 0; i < 500; i++) shaken.receive(i, i * 960, 1, 1_000 + i * 20 + (i % 2) * 10);
    expect(shaken.jitterMs).toBeCloseTo(10, 0);
    const before = shaken.jitterMs;
    shaken.receive(10, 9_600, 1, 20_000, true);
    shaken.receive(11, 10_560, 1, 20_000);
    shaken.receive(500, 480_000, 1, 20_000, true);
    expect(shaken.jitterMs).toBe(before);
  });

  test("one packet 16 ms late moves the jitter by 1 ms [6.4.1]", () => {
    const reception = new Reception(1, 48_000);
    reception.receive(1, 0, 1, 0);
    reception.receive(2, 960, 1, 36);
    expect(reception.jitterMs).toBeCloseTo(1, 6);
  });

  test("the report block has the publisher's last report and the delay since", () => {
    const reception = new Reception(1, 90_000);
    expect(reception.takeReport(0)).toMatchObject({
      lastSenderReport: 0,
      delaySinceLastSenderReport: 0,
      highestSequence: 0,
    });
    reception.senderReport(0x11112222, 0x33334444, 1_000);
    expect(reception.takeReport(1_500)).toMatchObject({
      lastSenderReport: 0x22223333,
      delaySinceLastSenderReport: 32_768,
    });
  });

  test("agrees with plain counting for any arrivals", () => {
    fc.assert(
      fc.property(fc.nat(65_535), fc.array(fc.nat(20), { minLength: 1, maxLength: 200 }), (start, gaps) => {
        const reception = new Reception(1, 90_000);
        let extended = start;
        for (const gap of gaps) {
          reception.receive(extended & 0xffff, 0, 1, 0);
          extended += 1 + gap;
        }
        const last = extended - 1 - (gaps.at(-1) ?? 0);
        expect(reception.highest).toBe(last);
        expect(reception.cumulativeLost).toBe(last - start + 1 - gaps.length);
      }),
      { seed: 14, numRuns: 200 },
    );
  });
});

describe("sender reports to a viewer", () => {
  const publish = (clockRate: number, firstTimestamp: number, timestamp: number) => {
    const codec = clockRate === 48_000 ? "audio" : "h264";
    const forwarder = new Forwarder({
      ssrc: 9,
      clockRate,
      codec,
      payloadType: 1,
      firstSequence: 1_000,
      firstTimestamp,
    });
    forwarder.setTarget(0);
    const view = new RtpView();
    view.parse(rtpPacket({ timestamp, payload: 50 }));
    const key = { profile: "AEAD_AES_128_GCM", key: new Uint8Array(16), salt: new Uint8Array(12) } as const;
    const transport = { srtp: new SrtpSender(key), address: "", port: 0, deliver: undefined, slots: new Set<never>() };
    const target = createTarget(transport, new OutgoingExtensions({}));
    forwarder.forward({ view, layer: 0, extended: 1, keyframe: true, vp8: new Vp8Descriptor() }, target, 0);
    return forwarder;
  };

  const report = (ntpMs: number, rtpTimestamp: number) => {
    const { seconds, fraction } = ntpFromMs(ntpMs);
    return {
      type: "sr" as const,
      ssrc: 1,
      ntpSeconds: seconds,
      ntpFraction: fraction,
      rtpTimestamp,
      packetCount: 0,
      octetCount: 0,
      reports: [],
    };
  };

  test("audio and video of one moment have the same NTP time, whenever their reports arrived", () => {
    // At the publisher's 1,700,000,000,000 ms: audio 1,000, video 4,294,967,000; reports 700 ms apart.
    const moment = 1_700_000_000_000;
    const audio = publish(48_000, 11_111, 1_000);
    const video = publish(90_000, 4_000_000_000, 4_294_967_000);
    const audioReport = receivedReport(report(moment, 1_000), 5_000);
    const videoReport = receivedReport(report(moment + 700, (4_294_967_000 + 63_000) >>> 0), 5_730);
    const now = 6_000;
    const a = deriveSenderReport(audio, 0, 48_000, audioReport, now);
    const v = deriveSenderReport(video, 0, 90_000, videoReport, now);
    if (a === undefined || v === undefined) throw new Error("no report");
    /** The NTP time of the moment, as the viewer works it out. */
    const at = (r: typeof a, firstTimestamp: number, clockRate: number) =>
      ntpToMs(r.ntpSeconds, r.ntpFraction) - (((r.rtpTimestamp - firstTimestamp) | 0) * 1000) / clockRate;
    expect(at(a, 11_111, 48_000)).toBeCloseTo(moment, 1);
    expect(at(v, 4_000_000_000, 90_000)).toBeCloseTo(moment, 1);
    expect(a).toMatchObject({ ssrc: 9, packetCount: 1, octetCount: 50 });
  });

  test("there is no report for a layer that is not forwarded", () => {
    const forwarder = publish(90_000, 0, 0);
    expect(deriveSenderReport(forwarder, 1, 90_000, receivedReport(report(0, 0), 0), 0)).toBeUndefined();
  });

  test("the round trip is measured from when a report was sent, though its clock is the publisher's", () => {
    const sent = new SentReports();
    for (let i = 0; i < 20; i++) sent.remember(1_000 + i, 0, 50_000 + i * 100);
    const block = (lastSenderReport: number) => ({
      ssrc: 1,
      fractionLost: 0,
      cumulativeLost: 0,
      highestSequence: 0,
      jitter: 0,
      lastSenderReport,
      delaySinceLastSenderReport: msToCompact(30),
    });
    expect(sent.roundTripMs(block(compactNtp(1_019, 0)), 51_980)).toBeCloseTo(50, 1);
    expect(sent.roundTripMs(block(compactNtp(1_000, 0)), 52_000)).toBeUndefined();
    expect(sent.roundTripMs(block(0), 52_000)).toBeUndefined();
  });
});

describe("quality", () => {
  const figures = (lossRatio: number, rttMs: number, jitterMs: number, silentMs = 0) => ({
    lossRatio,
    rttMs,
    jitterMs,
    silentMs,
  });

  test.each([
    ["a good line", figures(0, 40, 5), "excellent"],
    ["another continent", figures(0, 250, 10), "excellent"],
    ["5 % loss", figures(0.05, 60, 10), "good"],
    ["a long way with jitter", figures(0.01, 400, 60), "good"],
    ["20 % loss", figures(0.2, 60, 10), "poor"],
    ["a second of delay", figures(0, 1_000, 20), "poor"],
    ["silence", figures(0, 40, 5, 8_000), "lost"],
  ] as const)("%s", (_, input, quality) => {
    expect(qualityOf(input)).toBe(quality);
  });

  test("worse figures never score better", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, noNaN: true }),
        fc.nat(2_000),
        fc.nat(300),
        fc.nat(100),
        (loss, rtt, jitter, more) => {
          const score = qualityScore(figures(loss, rtt, jitter));
          expect(qualityScore(figures(Math.min(1, loss + more / 100), rtt, jitter))).toBeLessThanOrEqual(score);
          expect(qualityScore(figures(loss, rtt + more, jitter))).toBeLessThanOrEqual(score);
          expect(qualityScore(figures(loss, rtt, jitter + more))).toBeLessThanOrEqual(score);
        },
      ),
      { seed: 15 },
    );
  });

  test("a score at a boundary keeps the previous quality", () => {
    const edge = figures(0.03, 60, 10);
    expect(qualityScore(edge)).toBeGreaterThan(82);
    expect(qualityOf(edge, "excellent")).toBe("excellent");
    expect(qualityOf(edge, "good")).toBe("good");
  });
});
