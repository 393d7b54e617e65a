import { describe, expect, test } from "bun:test";
import { keyframeHeight, type MediaCodec, startsKeyframe } from "../../../../src/sfu/wire/codec/keyframe.ts";
import { Vp8Descriptor } from "../../../../src/sfu/wire/codec/vp8.ts";
import { RtpView } from "../../../../src/sfu/wire/rtp/rtp.ts";
import { hex, rtpPacket } from "../../packets.ts";

function heightOf(codec: MediaCodec, payload: string): number {
  const view = new RtpView();
  view.parse(rtpPacket({ payload: hex(payload) }));
  const vp8 = new Vp8Descriptor();
  startsKeyframe(codec, view, vp8);
  return keyframeHeight(codec, view, vp8);
}

// Parameter sets and sequence headers as Chromium's encoders write them.
const SPS = {
  180: "6742c00d8c8d40a0cbcf37010d0107844235",
  360: "6742c01e8c8d405017fcb37010d01078442350",
  720: "6742c01f8c8d402802dd37010d0107844235",
  1080: "67640c28ac191a80780227e59b80868083c2211a80",
};
const AV1_SEQUENCE = { 360: "0000000cc4ff670068808680c2", 720: "0000002d4cffb3c01a2021a03080" };

describe("the height of a keyframe", () => {
  test.each(Object.entries(SPS))("H.264 of %p lines, alone and in a STAP-A behind another unit", (lines, sps) => {
    const size = (sps.length / 2).toString(16).padStart(4, "0");
    expect(heightOf("h264", sps)).toBe(Number(lines));
    expect(heightOf("h264", `78 0002 0905 ${size} ${sps} 0004 68ce3c80`)).toBe(Number(lines));
  });

  test("the height of H.264 from other encoders is read: baseline, and high profile with escaped bytes", () => {
    expect(heightOf("h264", "67 42 00 0a f8 41 a2")).toBe(96);
    expect(heightOf("h264", "67640028acd940780227e584000003000400000300f03c60c658")).toBe(1_080);
  });

  test.each(["6742", "6742c01e8c", "65b80004", "78ffff67", `67${"00".repeat(40)}`, `67${"ff".repeat(40)}`])(
    "H.264 without a readable parameter set (%p) tells nothing absurd",
    (payload) => {
      const height = heightOf("h264", payload);
      expect(height).toBeGreaterThanOrEqual(0);
      expect(height).toBeLessThanOrEqual(16_384);
    },
  );

  test.each(Object.entries(AV1_SEQUENCE))("AV1 of %p lines, in every way of packing", (lines, header) => {
    const size = (header.length / 2 + 1).toString(16).padStart(2, "0");
    const inner = (header.length / 2).toString(16).padStart(2, "0");
    expect(heightOf("av1", `18 08 ${header}`)).toBe(Number(lines));
    expect(heightOf("av1", `28 ${size} 08 ${header} 3010aabbcc`)).toBe(Number(lines));
    expect(heightOf("av1", `08 ${size} 08 ${header} 05 3010aabbcc`)).toBe(Number(lines));
    expect(heightOf("av1", `18 0a ${inner} ${header}`)).toBe(Number(lines));
    expect(heightOf("av1", `28 02 1000 08 ${header}`)).toBe(Number(lines));
  });

  test.each(["18 30aabbcc", "28 ff 08 00", "28 ffffffffff 08", "18 08 00", "08 00 00 00 00"])(
    "AV1 without a sequence header (%p) has no known height",
    (payload) => {
      expect(heightOf("av1", payload)).toBe(0);
    },
  );

  test.each([
    ["one layer", "8a 8001 18 0500 02d0 00", 720],
    ["three spatial layers: the largest", "aa 8001 00 05 58 0140 00b4 0280 0168 0500 02d0", 720],
    ["flexible mode", "ba 8001 00 18 0280 0168", 360],
    ["a structure without sizes", "8a 8001 08 01", 0],
    ["no structure", "88 8001 00", 0],
    ["cut off", "8a 8001 18 0500", 0],
  ])("VP9: %s", (_, payload, height) => {
    expect(heightOf("vp9", payload)).toBe(height);
  });

  test("the height of VP8 is read, and audio has none", () => {
    expect(heightOf("vp8", "10 10 02 00 9d 01 2a 00 05 d0 02")).toBe(720);
    expect(heightOf("audio", "fc")).toBe(0);
  });
});
