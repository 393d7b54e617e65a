import { expect, test } from "bun:test";
import { Canvas } from "../../../src/features/egress/compositor/canvas.ts";
import { Mixer } from "../../../src/features/egress/compositor/mixer.ts";
import { LeastDelay, TrackClock } from "../../../src/features/egress/compositor/playout-clock.ts";

const stereo = (value: number, frames = 960) => new Int16Array(frames * 2).fill(value);
const samplesOf = (bytes: Uint8Array) => new Int16Array(bytes.buffer);

test("tracks are summed at their times, and clipped instead of wrapped", () => {
  const mixer = new Mixer();
  mixer.add("a", stereo(1_000), 1_000);
  mixer.add("b", stereo(32_000), 1_010);
  const mixed = samplesOf(mixer.mix(48_000, 960));
  expect([mixed[0], mixed[958], mixed[960], mixed.at(-1)]).toEqual([1_000, 1_000, 32_767, 32_767]);
  expect(samplesOf(mixer.mix(48_960, 960))[0]).toBe(32_000);
  expect(samplesOf(mixer.mix(49_920, 960)).every((sample) => sample === 0)).toBe(true);
});

test("a packet that is a little early or late continues the one before, and a later one leaves a gap", () => {
  const mixer = new Mixer();
  mixer.add("a", stereo(5), 0);
  mixer.add("a", stereo(6), 35);
  mixer.add("a", stereo(7), 100);
  const mixed = samplesOf(mixer.mix(0, 4_800 + 960));
  expect([mixed[0], mixed[2 * 960], mixed[2 * 1_920], mixed[2 * 4_800]]).toEqual([5, 6, 0, 7]);
});

test("a track that is removed is not heard any more", () => {
  const mixer = new Mixer();
  mixer.add("a", stereo(5), 0);
  mixer.remove("a");
  expect(samplesOf(mixer.mix(0, 960))[0]).toBe(0);
});

test("sender reports synchronise the tracks of a participant, whatever the delay of each", () => {
  const participant = new LeastDelay();
  const [video, audio] = [new TrackClock(90_000, participant), new TrackClock(48_000, participant)];
  video.report(500_000, 9_000);
  audio.report(500_000, 48_000);
  // Both were captured at the same time; the video arrived 120 ms after the sound.
  const soundMs = audio.at(48_000 + 4_800, 1_000_130);
  const imageMs = video.at(9_000 + 9_000, 1_000_250);
  expect(Math.abs(soundMs - imageMs)).toBeLessThan(1);
});

test("before the first report the frames of a track keep their distances, even when the timestamp wraps", () => {
  const clock = new TrackClock(90_000, new LeastDelay());
  const begin = clock.at(0xffffff00, 1_000);
  expect(clock.at((0xffffff00 + 9_000) >>> 0, 1_160) - begin).toBeCloseTo(100, 0);
  expect(clock.at((0xffffff00 + 18_000) >>> 0, 1_200) - begin).toBeCloseTo(200, 0);
});

test("a frame is copied to its tile, and a frame of another size is scaled to it", () => {
  const canvas = new Canvas(16, 16);
  canvas.clear();
  const bright = (width: number, height: number) => ({
    width,
    height,
    data: new Uint8Array((width * height * 3) / 2).fill(200),
  });
  const place = { x: 4, y: 8, width: 8, height: 4 };
  for (const frame of [bright(8, 4), bright(4, 2), bright(16, 8)]) {
    canvas.clear();
    canvas.draw(frame, place);
    const lit = [...canvas.data.subarray(0, 256)].flatMap((luma, at) => (luma === 200 ? [at] : []));
    expect(lit).toHaveLength(32);
    expect([lit[0], lit.at(-1)]).toEqual([8 * 16 + 4, 11 * 16 + 11]);
    expect(canvas.data.subarray(256).filter((chroma) => chroma === 200)).toHaveLength(16);
  }
});
