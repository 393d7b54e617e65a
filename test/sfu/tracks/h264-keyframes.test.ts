// A new subscriber to H.264 begins with the parameter sets, however the frame was split and in whatever order its packets came.

import { describe, expect, test } from "bun:test";
import { Stage, type StageViewer } from "./stage.ts";

const bytes = (...values: number[]) => Uint8Array.from([...values, 0x88, 0x84, 0, 1]);
const UNITS: Record<string, Uint8Array> = {
  delimiter: bytes(0x09),
  sps: bytes(0x67),
  pps: bytes(0x68),
  /** STAP-A of both. */
  sets: Uint8Array.of(0x78, 0, 3, 0x67, 0x42, 0xc0, 0, 2, 0x68, 0xce),
  idr: bytes(0x65),
  idrStart: bytes(0x7c, 0x85),
  idrRest: bytes(0x7c, 0x05),
  idrEnd: bytes(0x7c, 0x45),
  slice: bytes(0x41),
};
const NAMES = new Map(Object.entries(UNITS).map(([name, unit]) => [Buffer.from(unit).toString("hex"), name]));
const names = ({ seen }: StageViewer) => seen.map(({ payload }) => NAMES.get(Buffer.from(payload).toString("hex")));
const unit = (name: string) => UNITS[name] as Uint8Array;

const FRAMES = [
  ["sets", "idr"],
  ["sets", "idrStart", "idrRest", "idrEnd"],
  ["sps", "pps", "idr", "idr", "idr"],
  ["delimiter", "sps", "pps", "idrStart", "idrEnd", "idrStart", "idrEnd"],
  ["idr", "idr"],
  ["delimiter", "idrStart", "idrEnd", "idrStart", "idrEnd"],
];
/** Where a decoder can begin. */
const beginOf = (frame: readonly string[]) => frame.findIndex((name) => name !== "delimiter");

describe.each(FRAMES)("an H.264 frame of %s %s %s %s %s %s %s", (...frame) => {
  const begin = beginOf(frame);

  test("is replayed from its first packet to a new subscriber", () => {
    const stage = new Stage("H264");
    stage.receive(65_530, 1_000, unit("slice"), 0);
    for (const [i, name] of frame.entries()) stage.receive(65_531 + i, 4_000, unit(name), 10);
    stage.receive(65_531 + frame.length, 7_000, unit("slice"), 40);
    expect(names(stage.watch(50))).toEqual([...frame.slice(begin), "slice"]);
  });

  test("is forwarded from its first packet whenever the subscriber joins", () => {
    for (let missed = 0; missed <= frame.length; missed++) {
      const stage = new Stage("H264");
      stage.receive(10, 1_000, unit("slice"), 0);
      let viewer: StageViewer | null = null;
      for (const [i, name] of frame.entries()) {
        if (i === missed) viewer = stage.watch(5);
        stage.receive(11 + i, 4_000, unit(name), 10);
      }
      viewer ??= stage.watch(20);
      expect(names(viewer)).toEqual(frame.slice(begin));
    }
  });

  test("is forwarded from its first packet when that arrives late", () => {
    const stage = new Stage("H264");
    stage.receive(10, 1_000, unit("slice"), 0);
    const viewer = stage.watch(0);
    for (const [i, name] of frame.entries()) if (i !== begin) stage.receive(11 + i, 4_000, unit(name), 10);
    expect(viewer.seen).toEqual([]);
    stage.receive(11 + begin, 4_000, unit(frame[begin] as string), 20);
    expect(names(viewer)).toEqual(frame.slice(begin));
    const numbers = viewer.seen.map(({ sequenceNumber }) => sequenceNumber);
    expect(numbers).toEqual(numbers.map((_, i) => (numbers[0] ?? 0) + i));
  });
});
