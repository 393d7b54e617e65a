import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { startsAv1Keyframe } from "../../../../src/sfu/wire/codec/av1.ts";
import { startsH264Keyframe } from "../../../../src/sfu/wire/codec/h264.ts";
import { Vp8Descriptor, Vp8Munger } from "../../../../src/sfu/wire/codec/vp8.ts";
import { startsVp9Keyframe } from "../../../../src/sfu/wire/codec/vp9.ts";
import { hex } from "../../packets.ts";

describe("VP8 [RFC 7741]", () => {
  const parse = (text: string) => {
    const bytes = hex(text);
    const descriptor = new Vp8Descriptor();
    return { ok: descriptor.parse(bytes, 0, bytes.length), descriptor, bytes };
  };

  test("a descriptor with every field and the size of a keyframe are parsed", () => {
    // X; I L T K; 15-bit id 0x7fff; TL0 0xfe; TID 1, Y, KEYIDX 31; then a keyframe of 1280 × 720.
    const { ok, descriptor } = parse("90 f0 ffff fe 7f  10 02 00 9d 01 2a 00 05 d0 02");
    expect(ok).toBe(true);
    expect(descriptor).toMatchObject({
      length: 6,
      startsFrame: true,
      keyframe: true,
      pictureId: 0x7fff,
      wide: true,
      tl0PicIdx: 0xfe,
      temporalLayer: 1,
      layerSync: true,
      keyIdx: 31,
      width: 1280,
      height: 720,
    });
  });

  test.each([
    ["a plain descriptor", "10 10", { length: 1, keyframe: true, pictureId: -1 }],
    ["an interframe", "10 11", { keyframe: false, startsFrame: true }],
    ["the middle of a keyframe", "00 10", { keyframe: false, startsFrame: false }],
    ["another partition", "11 10", { keyframe: false, startsFrame: false }],
    ["a 7-bit picture id", "90 80 7f 11", { pictureId: 127, wide: false, length: 3 }],
    ["TL0PICIDX alone", "90 40 05 11", { pictureId: -1, tl0PicIdx: 5, temporalLayer: -1 }],
    ["KEYIDX alone", "90 10 1f 11", { keyIdx: 31, temporalLayer: -1 }],
    ["a keyframe too short to tell its size", "10 10 00", { keyframe: true, width: 0, height: 0 }],
  ])("%s", (_, bytes, expected) => {
    const { ok, descriptor } = parse(bytes);
    expect(ok).toBe(true);
    expect(descriptor).toMatchObject(expected);
  });

  test.each(["", "90", "90 80", "90 80 80", "90 c0 01", "90 20", "90 f0 ffff fe"])(
    "a descriptor that is cut off is refused: %p",
    (bytes) => {
      expect(parse(bytes).ok).toBe(false);
    },
  );

  test("rewriting changes only the ids", () => {
    const { descriptor, bytes } = parse("90 f0 8001 02 63 10");
    const out = new Uint8Array(8);
    expect(descriptor.rewrite(bytes, 0, out, { pictureId: 0x7ffe, tl0PicIdx: 255, keyIdx: 1 })).toBe(6);
    expect(out.slice(0, 6)).toEqual(hex("90 f0 fffe ff 61"));
    const narrow = parse("90 80 7f 10");
    expect(narrow.descriptor.rewrite(narrow.bytes, 0, out, { pictureId: 0x80, tl0PicIdx: 0, keyIdx: 0 })).toBe(3);
    expect(out.slice(0, 3)).toEqual(hex("90 80 00"));
  });

  test("ids are consecutive across every switch and wrap", () => {
    const frame = (pictureId: number, tl0PicIdx: number, keyIdx: number, wide: boolean) => {
      const descriptor = new Vp8Descriptor();
      Object.assign(descriptor, { pictureId, tl0PicIdx, keyIdx, wide, length: 6 });
      return descriptor;
    };
    fc.assert(
      fc.property(
        fc.boolean(),
        fc.array(fc.tuple(fc.nat(0x7fff), fc.nat(255), fc.nat(31), fc.integer({ min: 1, max: 60 })), {
          minLength: 1,
          maxLength: 20,
        }),
        (wide, layers) => {
          const munger = new Vp8Munger();
          let expected: { pictureId: number; tl0PicIdx: number } | undefined;
          for (const [id, tl0, key, frames] of layers) {
            for (let i = 0; i < frames; i++) {
              const mask = wide ? 0x7fff : 0x7f;
              const descriptor = frame((id + i) & mask, (tl0 + i) & 0xff, key, wide);
              if (i === 0) munger.switchTo(descriptor);
              const ids = { ...munger.map(descriptor, false) };
              expect(munger.map(descriptor, true)).toEqual(ids);
              if (expected !== undefined) expect(ids).toMatchObject(expected);
              expected = { pictureId: (ids.pictureId + 1) & mask, tl0PicIdx: (ids.tl0PicIdx + 1) & 0xff };
            }
          }
        },
      ),
      { seed: 11, numRuns: 200 },
    );
  });
});

describe("keyframes of the other codecs", () => {
  const check = (detect: (data: Uint8Array, offset: number, length: number) => boolean, text: string) => {
    const bytes = hex(text);
    return detect(Uint8Array.from([0xff, ...bytes, 0xff]), 1, bytes.length);
  };

  test.each([
    ["SPS", "67 42c01f", true],
    ["IDR slice", "65 8884", true],
    ["slice", "61 e02a", false],
    ["PPS", "68 ce3c80", false],
    ["SEI", "06 0511", false],
    ["STAP-A with SPS and PPS", "78 0003 6742c0 0002 68ce", true],
    ["STAP-A with IDR behind SEI", "78 0002 0605 0002 6588", true],
    ["STAP-A of slices", "78 0002 61e0 0002 61e0", false],
    ["STAP-A with an absurd length", "78 ffff 67", false],
    ["STAP-A with a length of 0", "78 0000 0000 0000", false],
    ["FU-A starting an IDR", "7c 85 88", true],
    ["FU-A in the middle of an IDR", "7c 05 88", false],
    ["FU-A ending an IDR", "7c 45 88", false],
    ["FU-A starting a slice", "7c 81 e0", false],
    ["one byte", "67", false],
    ["nothing", "", false],
  ])("H.264 [RFC 6184]: %s", (_, bytes, expected) => {
    expect(check(startsH264Keyframe, bytes)).toBe(expected);
  });

  test.each([
    ["first packet of a frame without prediction", "88 8001", true],
    ["predicted", "c8 8001", false],
    ["not the first packet", "80 8001", false],
    ["lowest spatial layer", "a8 8001 10", true],
    ["higher spatial layer of a keyframe", "a8 8001 12", false],
    ["7-bit picture id", "a8 01 10", true],
    ["no picture id", "28 10", true],
    ["cut off before the layer", "a8 8001", false],
    ["nothing", "", false],
  ])("VP9 [RFC 9628]: %s", (_, bytes, expected) => {
    expect(check(startsVp9Keyframe, bytes)).toBe(expected);
  });

  test.each([
    ["new coded video sequence", "18 0a", true],
    ["continues an OBU", "98 0a", false],
    ["no new sequence", "10 0a", false],
    ["aggregation header alone", "18", false],
    ["nothing", "", false],
  ])("AV1: %s", (_, bytes, expected) => {
    expect(check(startsAv1Keyframe, bytes)).toBe(expected);
  });
});
