import { expect, test } from "bun:test";
import { Av1Frames } from "../../../../src/sfu/wire/frames/av1-frames.ts";
import { type Depacketizer, type EncodedFrame, spanOf, spansLength } from "../../../../src/sfu/wire/frames/frame.ts";
import { FrameAssembler } from "../../../../src/sfu/wire/frames/frame-assembler.ts";
import { H264Frames } from "../../../../src/sfu/wire/frames/h264-frames.ts";
import { Vp9Frames } from "../../../../src/sfu/wire/frames/vpx-frames.ts";
import { countSteps } from "../../../harness/steps.ts";

function assemble(frames: Depacketizer = new Av1Frames()) {
  const made: EncodedFrame[] = [];
  const assembler = new FrameAssembler(frames, true, { frame: (frame) => void made.push(frame), needKeyframe() {} });
  return { made, assembler };
}

/** A packet that is a whole AV1 frame with a sequence header. */
const WHOLE = Uint8Array.of(0x10, 0x08, 1, 2, 3);
/** Frames of as many packets as asked for, each of which continues the one before. */
const fragmentedAv1 = (packets: number) =>
  Array.from({ length: packets }, (_, i) =>
    Uint8Array.of((i > 0 ? 0x80 : 0) | (i < packets - 1 ? 0x40 : 0) | 0x10, i === 0 ? 0x08 : i, 7),
  );
const fragmentedH264 = (packets: number) =>
  Array.from({ length: packets }, (_, i) =>
    Uint8Array.of(0x7c, (i === 0 ? 0x80 : 0) | (i === packets - 1 ? 0x40 : 0) | 1, 7),
  );

for (const [codec, packetsOf, frames] of [
  ["AV1", fragmentedAv1, () => new Av1Frames()],
  ["H.264", fragmentedH264, () => new H264Frames()],
] as const) {
  test(`the work for a frame of ${codec} grows with the number of its packets, and no faster`, () => {
    const stepsOf = (packets: number) => {
      const spans = packetsOf(packets).map(spanOf);
      return countSteps(() => expect(frames().assemble(spans)?.spans.length).toBeGreaterThan(0));
    };
    expect(stepsOf(8_000)).toBeLessThan(3 * stepsOf(4_000));
  });
}

test("fragments of AV1 are joined with the element before them only", () => {
  const packets = [
    Uint8Array.of(0x50, 0x08, 1),
    // The end of the first OBU, a whole one, and the beginning of a third.
    Uint8Array.of(0xc0, 1, 2, 2, 0x30, 3, 2, 0x30, 4),
    Uint8Array.of(0x90, 5),
  ];
  const frame = new Av1Frames().assemble(packets.map(spanOf));
  expect(frame?.spans.map(({ data }) => Buffer.from(data).toString("hex"))).toEqual(["0a020102", "320103", "32020405"]);
});

test("a packet behind a gap of 32,000 numbers takes as little work as one behind a gap of one", () => {
  const stepsBehind = (gap: number) => {
    const { assembler } = assemble();
    assembler.add(0, 0, true, spanOf(WHOLE), 0);
    return countSteps(() => {
      for (let i = 0; i < 1_000; i++) assembler.add(1 + gap + i, 3_000 * i, true, spanOf(WHOLE), 0);
    });
  };
  expect(stepsBehind(32_000)).toBeLessThan(2 * stepsBehind(1) + 1_000);
});

test("packets that are each 32,000 numbers after the one before are given up one by one, with as little work", () => {
  const { assembler, made } = assemble();
  const steps = countSteps(() => {
    for (let i = 0; i < 500; i++) assembler.add(32_000 * i, 3_000 * i, true, spanOf(WHOLE), i);
    for (let ms = 1_000; ms < 3_000; ms += 10) assembler.tick(ms);
  });
  expect(made.length).toBe(1);
  expect(steps).toBeLessThan(20_000);
});

test("packets in any order make the frames in order, and a repeated one counts once", () => {
  const { assembler, made } = assemble();
  for (const number of [0, 5, 3, 3, 1, 4, 5, 2, 0]) assembler.add(number, 3_000 * number, true, spanOf(WHOLE), number);
  expect(made.map(({ timestamp }) => timestamp / 3_000)).toEqual([0, 1, 2, 3, 4, 5]);
});

test("a frame with more packets than any valid frame is dropped, and its packets are released", () => {
  const { assembler, made } = assemble(new H264Frames());
  for (const [i, packet] of fragmentedH264(20_000).entries()) assembler.add(i, 0, i === 19_999, spanOf(packet), 0);
  expect(made).toEqual([]);
  expect(assembler.damagedFrames).toBe(2);
});

test("a superframe of VP9 with more frames than its index can name is no frame", () => {
  const layer = (spatial: number) => spanOf(Uint8Array.of(0x2a, spatial << 1, 0, 1, 2, 3));
  const made = (count: number) => new Vp9Frames().assemble(Array.from({ length: count }, (_, i) => layer(i % 8)));
  expect(spansLength(made(8)?.spans ?? [])).toBeGreaterThan(0);
  expect(made(9)).toBeNull();
});
