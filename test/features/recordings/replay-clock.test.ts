import { expect, test } from "bun:test";
import { ReplayClock, stepOf } from "../../../web/replay/clock.ts";
import { clockText, type Entry, participantsAt, speakersAt, speakingIntervals } from "../../../web/replay/replay.ts";

function clock(durationMs = 60_000) {
  let at = 1_000;
  const made = new ReplayClock(durationMs, () => at);
  const pass = (ms: number) => {
    at += ms;
  };
  return { clock: made, pass };
}

test("the clock runs at its rate, pauses, seeks within its bounds, and ends", () => {
  const { clock: one, pass } = clock();
  pass(5_000);
  expect(one.positionMs).toBe(0);
  one.start();
  pass(2_000);
  expect(one.positionMs).toBe(2_000);
  one.setRate(2);
  pass(1_000);
  expect(one.positionMs).toBe(4_000);
  one.stop();
  pass(9_000);
  expect(one.positionMs).toBe(4_000);
  one.seek(-5);
  expect(one.positionMs).toBe(0);
  one.start();
  one.seek(59_000);
  pass(10_000);
  expect(one.positionMs).toBe(60_000);
});

test("a track plays at the offset of its file, seeks when it is far off, and adjusts its rate when it is near", () => {
  const file = { offsetMs: 10_000, durationMs: 5_000 };
  const at = (positionMs: number) => ({ positionMs, rate: 1 });
  expect(stepOf(file, at(9_999), 0).show).toBe(false);
  expect(stepOf(file, at(15_000), 0).show).toBe(false);
  expect(stepOf(file, at(12_000), 0)).toEqual({ show: true, seekMs: 2_000, rate: 1 });
  expect(stepOf(file, at(12_000), 1_990)).toEqual({ show: true, seekMs: null, rate: 1 });
  expect(stepOf(file, at(12_000), 1_900).rate).toBeGreaterThan(1);
  expect(stepOf(file, at(12_000), 2_100).rate).toBeLessThan(1);
});

const TIMELINE: Entry[] = [
  { atMs: 0, type: "participant.joined", identity: "ada" },
  { atMs: 1_000, type: "speakers.changed", speakers: [{ identity: "ada", level: 1 }] },
  { atMs: 2_000, type: "participant.joined", identity: "bob" },
  { atMs: 3_000, type: "speakers.changed", speakers: [] },
  { atMs: 4_000, type: "participant.left", identity: "ada" },
];

test("participants are present from join to leave, or from the start if they joined before", () => {
  const identities = ["ada", "bob", "eve"];
  expect(participantsAt(TIMELINE, identities, 500)).toEqual(["eve", "ada"]);
  expect(participantsAt(TIMELINE, identities, 2_500)).toEqual(["eve", "ada", "bob"]);
  expect(participantsAt(TIMELINE, identities, 5_000)).toEqual(["eve", "bob"]);
  expect([speakersAt(TIMELINE, 0), speakersAt(TIMELINE, 1_500), speakersAt(TIMELINE, 3_500)]).toEqual([
    [],
    ["ada"],
    [],
  ]);
});

test("the timeline bar shows the loudest speaker at each time, and leaves out spans too short to see", () => {
  const said = (atMs: number, ...names: string[]): Entry => ({
    atMs,
    type: "speakers.changed",
    speakers: names.map((identity) => ({ identity, level: 0 })),
  });
  expect(speakingIntervals(TIMELINE, 5_000)).toEqual([{ identity: "ada", fromMs: 1_000, toMs: 3_000 }]);
  const long = 5_000_000;
  const lively = [
    said(-500, "eve"),
    said(20_000, "bob", "eve"),
    said(20_001),
    said(4_000_000, "eve"),
    said(4_010_000, "ada"),
  ];
  expect(speakingIntervals(lively, long)).toEqual([
    { identity: "eve", fromMs: 0, toMs: 20_000 },
    { identity: "bob", fromMs: 20_000, toMs: 30_000 },
    { identity: "eve", fromMs: 4_000_000, toMs: 4_010_000 },
    { identity: "ada", fromMs: 4_010_000, toMs: long },
  ]);
  const busy = Array.from({ length: 20_000 }, (_, i) => said(i * 250, i % 2 ? "ada" : "bob"));
  expect(speakingIntervals(busy, long).length).toBeLessThanOrEqual(500);
  expect([speakingIntervals([], 0), speakingIntervals([said(0, "ada")], 0)]).toEqual([[], []]);
});

test("time is shown as minutes and seconds", () => {
  expect([0, 61_000, 3_661_500].map(clockText)).toEqual(["00:00", "01:01", "1:01:01"]);
});

test("a participant from before the recording is present until its leave", () => {
  const left: Entry[] = [{ atMs: 3_000, type: "participant.left", identity: "ada" }];
  expect(participantsAt(left, ["ada"], 0)).toEqual(["ada"]);
  expect(participantsAt(left, ["ada"], 3_000)).toEqual([]);
});
