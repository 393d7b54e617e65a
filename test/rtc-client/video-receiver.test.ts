import { afterEach, beforeEach, expect, jest, test } from "bun:test";
import { VideoReceiver } from "../../src/rtc-client/participant/video-receiver.ts";

beforeEach(() => void jest.useFakeTimers());
afterEach(() => void jest.useRealTimers());

/** One packet of VP8 that is a whole frame, a keyframe of 16x16 if asked for. */
function frame(keyframe: boolean): Uint8Array {
  const payload = [0x10, keyframe ? 0 : 1, 0, 0];
  return Uint8Array.from(keyframe ? [...payload, 0x9d, 0x01, 0x2a, 16, 0, 16, 0] : [...payload, 0, 0]);
}

function watching() {
  const asked: number[][] = [];
  const frames: boolean[] = [];
  const input = new VideoReceiver("VP8", {
    frame: ({ keyframe }) => void frames.push(keyframe),
    needKeyframe: () => {},
    lost: (numbers) => void asked.push(numbers),
  });
  const add = (number: number) => input.add(number & 0xffff, number * 3_000, true, frame(number === 65_534));
  return { input, asked, frames, add };
}

test("[21] a lost packet is requested across the wrap, and frames are complete when it arrives", () => {
  const { asked, frames, add } = watching();
  for (const number of [65_534, 65_535, 65_538, 65_539]) add(number);
  expect(frames).toHaveLength(2);
  jest.advanceTimersByTime(20);
  expect(asked).toEqual([[0, 1]]);
  for (const number of [65_537, 65_536, 65_536]) add(number);
  expect(frames).toHaveLength(6);
  jest.advanceTimersByTime(1_000);
  expect(asked).toHaveLength(1);
  expect(jest.getTimerCount()).toBe(0);
});

test("[21] no packet is requested after the track was closed", () => {
  const { input, asked, add } = watching();
  for (const number of [65_534, 65_536]) add(number);
  input.close();
  jest.advanceTimersByTime(1_000);
  expect([asked, jest.getTimerCount()]).toEqual([[], 0]);
});
