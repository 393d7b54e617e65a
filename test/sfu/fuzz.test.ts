import { describe, expect, test } from "bun:test";
import { seededRandom } from "../../src/kernel/net/impairment.ts";
import { av1Height, startsAv1Keyframe } from "../../src/sfu/wire/codec/av1.ts";
import { h264Height, startsH264Keyframe } from "../../src/sfu/wire/codec/h264.ts";
import { Vp8Descriptor } from "../../src/sfu/wire/codec/vp8.ts";
import { startsVp9Keyframe, vp9Height } from "../../src/sfu/wire/codec/vp9.ts";
import { parseRtcp } from "../../src/sfu/wire/rtcp/rtcp.ts";
import {
  writeNack,
  writePli,
  writeReceiverReport,
  writeRemb,
  writeSdes,
  writeSenderReport,
} from "../../src/sfu/wire/rtcp/rtcp-write.ts";
import { TwccRecorder } from "../../src/sfu/wire/rtcp/twcc.ts";
import { TransportFeedback } from "../../src/sfu/wire/rtcp/twcc-feedback.ts";
import { RtpView } from "../../src/sfu/wire/rtp/rtp.ts";
import { OutgoingExtensions, RtpExtensions } from "../../src/sfu/wire/rtp/rtp-extensions.ts";
import { unwrapRtx } from "../../src/sfu/wire/rtp/rtx.ts";
import { type SrtpProfile, SrtpReceiver } from "../../src/sfu/wire/srtp/srtp.ts";
import { masterSaltBytes } from "../../src/sfu/wire/srtp/srtp-cipher.ts";
import {
  hasFingerprint,
  hasIntegrity,
  parseStun,
  writeBindingRequest,
  writeBindingSuccess,
} from "../../src/sfu/wire/stun/stun.ts";
import { hex, readMappedAddress, rtpPacket, writeBye, writeFir } from "./packets.ts";

/**
 * Calls `read` with `count` mutations of the seeds: bits flipped, bytes set to edges, cut off, grown, spliced. The
 * buffer is larger than the packet and full of a pattern, so that reading past the end shows.
 */
function mutate(
  seeds: Uint8Array[],
  count: number,
  seed: number,
  read: (data: Uint8Array, length: number) => void,
): void {
  const random = seededRandom(seed);
  const pick = (below: number) => Math.floor(random() * below);
  const edges = [0, 1, 0x7f, 0x80, 0xff];
  const buffer = new Uint8Array(2_048);
  for (let i = 0; i < count; i++) {
    const source = seeds[pick(seeds.length)] as Uint8Array;
    buffer.set(source);
    let length = source.length;
    for (let changes = pick(6); changes >= 0; changes--) {
      const at = pick(Math.max(1, length));
      switch (pick(6)) {
        case 0:
          buffer[at] = (buffer[at] as number) ^ (1 << pick(8));
          break;
        case 1:
          buffer[at] = edges[pick(edges.length)] as number;
          break;
        case 2:
          buffer[at] = pick(256);
          break;
        case 3:
          length = pick(length + 1);
          break;
        case 4:
          length = Math.min(1_500, length + pick(40));
          break;
        case 5:
          buffer.copyWithin(at, pick(length + 1), pick(length + 1));
          break;
      }
    }
    read(buffer.subarray(0, length), length);
  }
}

const RTP_SEEDS = [
  rtpPacket({
    extensions: [
      { id: 1, data: hex("3031") },
      { id: 5, data: hex("ffff") },
      { id: 6, data: hex("85") },
    ],
    payload: hex("90e0800105001000009d012a00050002"),
  }),
  rtpPacket({ csrcs: 3, payload: 40, padding: 20 }),
  rtpPacket({ payload: hex("780003674200000268ce") }),
  rtpPacket({ payload: hex("67640c28ac191a80780227e59b80868083c2211a80") }),
  rtpPacket({ payload: hex("280e080000000cc4ff670068808680c23010aabbcc") }),
  rtpPacket({ payload: hex("aa800100055801400 0b4028001680500 02d0") }),
  hex("906000010000000000000001 1000 0003 0102 3132 0502 fffe 0601 1e00 b0e0ffff0000112233"),
];

describe("parsers take a million mutated packets without a throw", () => {
  test("the parsers of RTP headers, extensions, RTX and payload descriptors take 400,000 packets", () => {
    const view = new RtpView();
    const extensions = new RtpExtensions();
    const vp8 = new Vp8Descriptor();
    const outgoing = new OutgoingExtensions({ mid: { id: 1, value: "a" }, passThrough: [{ from: 6, to: 7 }] });
    const out = new Uint8Array(4_096);
    const ids = { mid: 1, rid: 2, repairedRid: 3, absSendTime: 4, transportSequence: 5, audioLevel: 6 };
    let parsed = 0;
    mutate(RTP_SEEDS, 400_000, 1, (data, length) => {
      if (!view.parse(data, length)) return;
      parsed += 1;
      if (view.payloadOffset + view.payloadLength + view.paddingLength !== length)
        throw new Error("parts do not add up");
      extensions.read(view, ids);
      if (extensions.audioLevel > 127 || (extensions.mid?.length ?? 0) > 255) throw new Error("absurd extension");
      outgoing.write(out, 12, view, 0, 0);
      if (vp8.parse(data, view.payloadOffset, view.payloadLength)) {
        if (vp8.length > view.payloadLength || vp8.length > 6) throw new Error("descriptor past the payload");
        vp8.rewrite(data, view.payloadOffset, out, { pictureId: 1, tl0PicIdx: 1, keyIdx: 1 });
      }
      for (const height of [h264Height, vp9Height, av1Height]) {
        const lines = height(data, view.payloadOffset, view.payloadLength);
        if (!(lines >= 0 && lines <= 65_536)) throw new Error("absurd height");
      }
      startsH264Keyframe(data, view.payloadOffset, view.payloadLength);
      startsVp9Keyframe(data, view.payloadOffset, view.payloadLength);
      startsAv1Keyframe(data, view.payloadOffset, view.payloadLength);
      unwrapRtx(view, 1, 2);
    });
    expect(parsed).toBeGreaterThan(100_000);
  }, 60_000);

  test("the parsers of RTCP and transport-wide feedback take 300,000 packets", () => {
    const out = new Uint8Array(1_500);
    const block = {
      ssrc: 1,
      fractionLost: 2,
      cumulativeLost: 3,
      highestSequence: 4,
      jitter: 5,
      lastSenderReport: 6,
      delaySinceLastSenderReport: 7,
    };
    let end = writeSenderReport(
      out,
      0,
      { ssrc: 1, ntpSeconds: 2, ntpFraction: 3, rtpTimestamp: 4, packetCount: 5, octetCount: 6 },
      [block],
    );
    end = writeSdes(out, end, 1, "name");
    end = writeNack(out, end, 1, 2, [1, 2, 40]);
    end = writePli(out, end, 1, 2);
    end = writeFir(out, end, 1, [{ ssrc: 2, sequence: 3 }]);
    end = writeRemb(out, end, 1, 1_000_000, [2, 3]);
    end = writeBye(out, end, [1]);
    const compound = out.slice(0, end);
    const reports = out.slice(0, writeReceiverReport(out, 0, 1, [block, block]));
    const recorder = new TwccRecorder();
    for (let i = 0; i < 60; i++) if (i % 7 !== 0) recorder.record(65_500 + i, i * (i % 5 === 0 ? 90 : 3));
    const feedbackPacket = out.slice(0, recorder.writeFeedback(out, 0, 1, 2));
    const feedback = new TransportFeedback();
    let packets = 0;
    mutate([compound, reports, feedbackPacket], 300_000, 2, (data, length) => {
      for (const packet of parseRtcp(data, length)) {
        packets += 1;
        if (packet.type === "nack" && packet.lost.length > (length / 4) * 17) throw new Error("losses from nowhere");
        if (packet.type === "transport-feedback") feedback.parse(packet.data, packet.start, packet.end);
      }
    });
    expect(packets).toBeGreaterThan(300_000);
  }, 60_000);

  test("the parser of STUN takes 200,000 packets, and none of them passes for authentic", () => {
    const out = new Uint8Array(200);
    const request = out.slice(
      0,
      writeBindingRequest(out, {
        transactionId: new Uint8Array(12).fill(7),
        username: "server:client",
        password: "secret",
        priority: 1,
        useCandidate: true,
        iceControlling: 1n,
      }),
    );
    const parsedRequest = parseStun(request);
    if (parsedRequest === undefined) throw new Error("not parsed");
    const answer = out.slice(0, writeBindingSuccess(out, parsedRequest, "::1", 5, "secret"));
    const authentic = [request, answer].map((bytes) => Buffer.from(bytes.subarray(0, -8)).toString("hex"));
    let parsed = 0;
    mutate([request, answer], 200_000, 3, (data, length) => {
      const message = parseStun(data, length);
      if (message === undefined) return;
      parsed += 1;
      hasFingerprint(message);
      readMappedAddress(message);
      if (!hasIntegrity(message, "secret")) return;
      // The signed part may only be what we signed; FINGERPRINT after it and the length field are not covered.
      const text = Buffer.from(data.subarray(0, message.integrityOffset + 20)).toString("hex");
      if (!authentic.some((known) => known.slice(8) === text.slice(8) && known.slice(0, 4) === text.slice(0, 4))) {
        throw new Error("a forged message passed");
      }
    });
    expect(parsed).toBeGreaterThan(20_000);
  }, 60_000);

  test.each(["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"] as SrtpProfile[])(
    "SRTP and SRTCP, %s: 50,000, all refused",
    (profile) => {
      const receiver = new SrtpReceiver({
        profile,
        key: new Uint8Array(16),
        salt: new Uint8Array(masterSaltBytes(profile)),
      });
      let accepted = 0;
      mutate(
        [...RTP_SEEDS, hex("80c90001000000010000000280000001aabbccddeeff00112233445566778899")],
        50_000,
        4,
        (data, length) => {
          if (receiver.unprotectRtp(data, length) >= 0) accepted += 1;
          if (receiver.unprotectRtcp(data, length) >= 0) accepted += 1;
        },
      );
      expect(accepted).toBe(0);
      const { malformed, unauthentic, replayed } = receiver.refusals;
      expect(malformed + unauthentic + replayed).toBe(100_000);
    },
  );
});
