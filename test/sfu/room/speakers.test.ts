import { describe, expect, test } from "bun:test";
import { LoudestVoices, Speakers } from "../../../src/sfu/room/speakers.ts";

/** Feeds 20 ms packets: `levels` maps a voice to its level at a time. */
function run(
  ms: number,
  levels: Record<string, (nowMs: number) => number | undefined>,
  each: (id: string, level: number, nowMs: number) => void,
  from = 0,
) {
  for (let now = from; now < from + ms; now += 20) {
    for (const [id, level] of Object.entries(levels)) {
      const value = level(now);
      if (value !== undefined) each(id, value, now);
    }
  }
}

describe("active speakers", () => {
  test("a participant that speaks is listed until it falls silent, and a silent one never is", () => {
    const speakers = new Speakers();
    const changes: string[][] = [];
    const each = (id: string, level: number, now: number) => {
      speakers.observe(id, level, now);
      const change = speakers.takeChange(now);
      if (change !== null) changes.push(change.map((speaker) => speaker.identity));
    };
    run(2_000, { anna: () => 20, ben: () => 80 }, each);
    run(2_000, { anna: () => 90, ben: () => 80 }, each, 2_000);
    expect(changes[0]).toEqual(["anna"]);
    expect(changes.at(-1)).toEqual([]);
    expect(changes.flat()).not.toContain("ben");
  });

  test("louder speakers come first", () => {
    const speakers = new Speakers();
    run(1_000, { quiet: () => 40, loud: () => 10 }, (id, level, now) => speakers.observe(id, level, now));
    const list = speakers.takeChange(1_000) ?? [];
    expect(list.map(({ identity }) => identity)).toEqual(["loud", "quiet"]);
    expect(list.every(({ level }) => level > 0 && level <= 1)).toBe(true);
  });

  test("the list changes at most four times a second, however fast the levels change", () => {
    const speakers = new Speakers();
    const at: number[] = [];
    let state = 1;
    const wild = () => {
      state = (state * 48_271) % 2_147_483_647;
      return state % 128;
    };
    run(10_000, { a: wild, b: wild, c: wild, d: wild }, (id, level, now) => {
      speakers.observe(id, level, now);
      if (speakers.takeChange(now) !== null) at.push(now);
    });
    for (const time of at)
      expect(at.filter((other) => other >= time && other < time + 1_000).length).toBeLessThanOrEqual(4);
    expect(at.length).toBeGreaterThan(2);
  });

  test("one loud noise adds no speaker, and a short pause removes none", () => {
    const speakers = new Speakers();
    const lists: string[] = [];
    run(
      5_000,
      { door: (now) => (now === 1_000 ? 5 : 100), speaker: (now) => (now % 1_000 < 700 ? 20 : 100) },
      (id, level, now) => {
        speakers.observe(id, level, now);
        const change = speakers.takeChange(now);
        if (change !== null) lists.push(change.map(({ identity }) => identity).join());
      },
    );
    expect(lists.filter((list) => list.includes("door"))).toEqual([]);
    // Once listed, the speaker stays listed over the pauses.
    const first = lists.indexOf("speaker");
    expect(lists.slice(first).every((list) => list === "speaker")).toBe(true);
  });

  test("a speaker that was removed is not listed", () => {
    const speakers = new Speakers();
    run(500, { a: () => 10 }, (id, level, now) => speakers.observe(id, level, now));
    speakers.remove("a");
    expect(speakers.takeChange(500)).toBeNull();
  });
});

describe("the loudest voices", () => {
  test("every voice is selected while there are fewer voices than the limit", () => {
    const voices = new LoudestVoices(3);
    for (const id of ["a", "b", "c"]) expect(voices.observe(id, 100, 0)).toBe(true);
    expect(voices.observe("d", 100, 0)).toBe(false);
    expect(voices.selected).toEqual(["a", "b", "c"]);
  });

  test("a new loud voice replaces the quietest within 100 ms", () => {
    const voices = new LoudestVoices(2);
    let heardAt: number | undefined;
    run(3_000, { talks: () => 20, silent: () => 100, late: (now) => (now < 2_000 ? 100 : 25) }, (id, level, now) => {
      if (voices.observe(id, level, now) && id === "late") heardAt ??= now;
    });
    expect(heardAt).toBeGreaterThanOrEqual(2_000);
    expect(heardAt).toBeLessThanOrEqual(2_100);
    expect(voices.selected.sort()).toEqual(["late", "talks"]);
  });

  test("two equally loud voices do not replace each other", () => {
    const voices = new LoudestVoices(1);
    let changes = 0;
    let before = "";
    run(10_000, { a: () => 25, b: () => 24 }, (id, level, now) => {
      voices.observe(id, level, now);
      const after = voices.selected.join();
      if (after !== before) changes += 1;
      before = after;
    });
    expect(changes).toBe(1);
  });

  test("a voice stays selected for at least half a second", () => {
    const voices = new LoudestVoices(1);
    let takenAt: number | undefined;
    run(2_000, { a: () => 40, b: (now) => (now < 100 ? undefined : 10) }, (id, level, now) => {
      if (voices.observe(id, level, now) && id === "b") takenAt ??= now;
    });
    expect(takenAt).toBeGreaterThanOrEqual(500);
    expect(takenAt).toBeLessThanOrEqual(600);
  });

  test("a murmur does not replace a speaker during a pause between words", () => {
    const voices = new LoudestVoices(1);
    run(5_000, { speaker: (now) => (now % 600 < 300 ? 20 : 90), murmur: () => 50 }, (id, level, now) => {
      voices.observe(id, level, now);
    });
    expect(voices.has("speaker")).toBe(true);
  });

  test("a voice without packets (DTX) or a removed one is replaced", () => {
    const voices = new LoudestVoices(1);
    run(1_000, { a: () => 20 }, (id, level, now) => voices.observe(id, level, now));
    run(1_000, { b: () => 30 }, (id, level, now) => voices.observe(id, level, now), 1_400);
    expect(voices.selected).toEqual(["b"]);
    voices.remove("b");
    expect(voices.observe("c", 100, 2_400)).toBe(true);
  });
});
