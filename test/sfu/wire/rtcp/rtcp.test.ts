import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { parseRtcp, type ReportBlock } from "../../../../src/sfu/wire/rtcp/rtcp.ts";
import {
  writeNack,
  writePli,
  writeReceiverReport,
  writeRemb,
  writeSdes,
  writeSenderReport,
} from "../../../../src/sfu/wire/rtcp/rtcp-write.ts";
import { ntpFromMs, ntpToMs } from "../../../../src/sfu/wire/rtp/ntp.ts";
import { hex, writeBye, writeFir } from "../../packets.ts";

const block = (ssrc: number): ReportBlock => ({
  ssrc,
  fractionLost: 255,
  cumulativeLost: -5,
  highestSequence: 0xffffffff,
  jitter: 1234,
  lastSenderReport: 0x12345678,
  delaySinceLastSenderReport: 65_536,
});

describe("RTCP", () => {
  test("a compound of everything is read back as it was written, each packet within its own bounds", () => {
    const out = new Uint8Array(1500);
    const report = {
      ssrc: 1,
      ntpSeconds: 0xe0000000,
      ntpFraction: 0x80000000,
      rtpTimestamp: 0xffffffff,
      packetCount: 10,
      octetCount: 20,
    };
    let end = writeSenderReport(out, 0, report, [block(2)]);
    end = writeReceiverReport(out, end, 3, [block(4), block(5)]);
    end = writeSdes(out, end, 6, "stoa-cname");
    end = writeNack(out, end, 7, 8, [65_535, 0, 16, 17]);
    end = writePli(out, end, 9, 10);
    end = writeFir(out, end, 11, [{ ssrc: 12, sequence: 255 }]);
    end = writeRemb(out, end, 13, 2_500_000, [14, 15]);
    end = writeBye(out, end, [16, 17]);
    expect(parseRtcp(out, end)).toEqual([
      { type: "sr", ...report, reports: [block(2)] },
      { type: "rr", ssrc: 3, reports: [block(4), block(5)] },
      { type: "sdes", chunks: [{ ssrc: 6, cname: "stoa-cname" }] },
      { type: "nack", senderSsrc: 7, mediaSsrc: 8, lost: [65_535, 0, 16, 17] },
      { type: "pli", senderSsrc: 9, mediaSsrc: 10 },
      { type: "fir", senderSsrc: 11, requests: [{ ssrc: 12, sequence: 255 }] },
      { type: "remb", senderSsrc: 13, bitrate: 2_500_000, ssrcs: [14, 15] },
      { type: "bye", ssrcs: [16, 17] },
    ]);
  });

  test("a NACK followed by another packet contains only its own numbers", () => {
    const out = new Uint8Array(100);
    let end = writeNack(out, 0, 1, 2, [100]);
    end = writeReceiverReport(out, end, 3, [block(4)]);
    expect(parseRtcp(out, end)[0]).toEqual({ type: "nack", senderSsrc: 1, mediaSsrc: 2, lost: [100] });
  });

  test("packets after a malformed one are not parsed, and those before it are", () => {
    const good = hex("81ce00020000000100000002");
    expect(parseRtcp(Uint8Array.from([...good, ...hex("81ce00ff00000001")]))).toHaveLength(1);
    expect(parseRtcp(Uint8Array.from([...good, ...hex("41ce000200000001"), ...good]))).toHaveLength(1);
    expect(parseRtcp(Uint8Array.from([...hex("81ce00ff00000001"), ...good]))).toHaveLength(0);
  });

  test("counts that do not fit the packet are refused", () => {
    expect(parseRtcp(hex("9fc90001 00000001"))).toEqual([]);
    expect(parseRtcp(hex("9fcb0000"))).toEqual([]);
    expect(parseRtcp(hex("8fce0005 00000001 00000000 52454d42 ff000000 00000001"))).toEqual([]);
  });

  test("only the last packet may have padding, which is not parsed", () => {
    const padded = hex("a1cd0004 00000001 00000002 00640000 00000004");
    expect(parseRtcp(padded)).toEqual([{ type: "nack", senderSsrc: 1, mediaSsrc: 2, lost: [100] }]);
    expect(parseRtcp(Uint8Array.from([...padded, ...hex("81ce00020000000100000002")]))).toEqual([]);
    expect(parseRtcp(hex("a1cd0003 00000001 00000002 00640000"))).toEqual([]);
  });

  test("unknown types are skipped", () => {
    expect(parseRtcp(hex("80cf0000 81ce00020000000100000002"))).toHaveLength(1);
  });

  test("any set of lost packets survives NACK packing, over the wrap too", () => {
    fc.assert(
      fc.property(fc.nat(65_535), fc.uniqueArray(fc.nat(300), { minLength: 1, maxLength: 60 }), (base, offsets) => {
        const lost = offsets.sort((a, b) => a - b).map((offset) => (base + offset) & 0xffff);
        const out = new Uint8Array(500);
        const [packet] = parseRtcp(out, writeNack(out, 0, 1, 2, lost));
        expect(packet).toMatchObject({ type: "nack", lost });
      }),
      { seed: 3, numRuns: 500 },
    );
  });

  test.each([0, 1, 262_143, 262_144, 300_000, 2_500_000, 100_000_000_000])(
    "REMB of %i bits/s keeps 17 bits of precision",
    (bitrate) => {
      const out = new Uint8Array(40);
      const [packet] = parseRtcp(out, writeRemb(out, 0, 1, bitrate, [2]));
      if (packet?.type !== "remb") throw new Error("not a REMB");
      expect(packet.bitrate).toBeLessThanOrEqual(bitrate);
      expect(bitrate - packet.bitrate).toBeLessThanOrEqual(bitrate / 131_072);
    },
  );

  test.each(["", "a", "ab", "abc", "abcd", "x".repeat(255)])("SDES ends on a word whatever the name (%p)", (cname) => {
    const out = new Uint8Array(300).fill(0xff);
    const end = writeSdes(out, 0, 9, cname);
    expect(end % 4).toBe(0);
    expect(parseRtcp(out, end)).toEqual([{ type: "sdes", chunks: [{ ssrc: 9, cname }] }]);
  });
});

describe("NTP time", () => {
  test("the fraction is binary: half a second is 2³¹", () => {
    expect(ntpFromMs(1_000_000_000_500)).toEqual({ seconds: 1_000_000_000 + 2_208_988_800, fraction: 0x80000000 });
    expect(ntpFromMs(1_000_000_000_250).fraction).toBe(0x40000000);
    expect(ntpFromMs(999.99999999)).toEqual({ seconds: 1 + 2_208_988_800, fraction: 0 });
  });

  test("any time is converted within a microsecond, even after the rollover of 2036", () => {
    fc.assert(
      fc.property(fc.double({ min: 0, max: 4_000_000_000_000, noNaN: true }), (ms) => {
        const { seconds, fraction } = ntpFromMs(ms);
        expect(fraction).toBeLessThan(2 ** 32);
        expect(seconds).toBeLessThan(2 ** 32);
        expect(Math.abs(ntpToMs(seconds, fraction) - ms)).toBeLessThan(0.001);
      }),
      { seed: 5, numRuns: 1000 },
    );
  });
});
