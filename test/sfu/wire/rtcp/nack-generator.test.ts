import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { AUDIO_REPAIR, NackGenerator } from "../../../../src/sfu/wire/rtcp/nack-generator.ts";

describe("requests for lost packets", () => {
  const feed = (generator: NackGenerator, sequences: number[], nowMs = 0) => {
    for (const sequence of sequences) generator.receive(sequence & 0xffff, nowMs);
  };

  test("only missing packets are requested, after a moment for reordering", () => {
    const generator = new NackGenerator();
    feed(generator, [1, 2, 5]);
    expect(generator.takeDue(9)).toEqual([]);
    expect(generator.takeDue(10)).toEqual([3, 4]);
    feed(generator, [3], 20);
    generator.setRtt(50);
    expect(generator.takeDue(200)).toEqual([4]);
    expect(generator).toMatchObject({ requested: 3, recovered: 1, missing: 1 });
  });

  test("lost audio is requested at once and again after a round trip, and no keyframe is wanted", () => {
    const generator = new NackGenerator(AUDIO_REPAIR);
    generator.setRtt(40);
    feed(generator, [1, 3]);
    const times: number[] = [];
    for (let now = 0; now < 500; now++) if (generator.takeDue(now).length > 0) times.push(now);
    expect(times).toEqual([0, 44]);
    expect(generator).toMatchObject({ missing: 0, abandoned: 1, wantsKeyframe: false });
    generator.setRtt(300);
    feed(generator, [5], 1_000);
    expect(generator.takeDue(1_000)).toEqual([4]);
    expect(generator.takeDue(1_250)).toEqual([]);
    expect(generator.missing).toBe(0);
  });

  test("the loss of a path is counted once per interval: repairs do not hide it, and reordered packets are not lost", () => {
    const generator = new NackGenerator();
    feed(generator, [65_533, 65_534, 1, 0]);
    generator.takeDue(20);
    feed(generator, [65_535, 2], 30);
    expect(generator.takePathLoss()).toEqual({ expected: 6, lost: 1 });
    expect(generator.takePathLoss()).toEqual({ expected: 0, lost: 0 });
    generator.receiveNext(5);
    expect(generator.takePathLoss()).toEqual({ expected: 5, lost: 0 });
    // An outage is lost as well, though it is not requested.
    feed(generator, [7 + 500], 40);
    expect(generator.takePathLoss()).toEqual({ expected: 500, lost: 499 });
    generator.reset();
    feed(generator, [9, 10]);
    expect(generator.takePathLoss()).toEqual({ expected: 2, lost: 0 });
  });

  test("new packets are distinguished from repeated ones", () => {
    const generator = new NackGenerator();
    const news = [10, 10, 12, 11, 11, 9, 13, 3_000, 100].map((sequence) => generator.receive(sequence, 0));
    expect(news).toEqual([true, false, true, true, false, false, true, true, false]);
  });

  test("reordered packets are never requested", () => {
    const generator = new NackGenerator();
    feed(generator, [1, 3], 0);
    feed(generator, [2], 5);
    expect(generator.takeDue(1_000)).toEqual([]);
    expect(generator.requested).toBe(0);
  });

  test("packets are requested across the wrap", () => {
    const generator = new NackGenerator();
    feed(generator, [65_533, 1]);
    expect(generator.takeDue(10)).toEqual([65_534, 65_535, 0]);
    feed(generator, [65_535, 65_534, 0]);
    expect(generator.missing).toBe(0);
  });

  test("a loss exactly at 65535 is noticed, cycle after cycle", () => {
    const generator = new NackGenerator();
    let found = 0;
    for (let extended = 0; extended < 65_536 * 3; extended++) {
      if ((extended & 0xffff) === 65_535) continue;
      generator.receive(extended & 0xffff, extended);
      found += generator.takeDue(extended + 10).filter((sequence) => sequence === 65_535).length;
      if (found > 0 && generator.missing > 0) generator.receive(65_535, extended);
    }
    expect(found).toBeGreaterThanOrEqual(2);
  });

  test("requests are repeated about once a round trip, more slowly each time, and given up within a second", () => {
    const generator = new NackGenerator();
    generator.setRtt(80);
    feed(generator, [1, 3]);
    const times: number[] = [];
    for (let now = 0; now < 3_000; now++) if (generator.takeDue(now).length > 0) times.push(now);
    const gaps = times.slice(1).map((time, i) => time - (times[i] as number));
    expect(gaps.every((gap) => gap >= 80 && gap <= 251)).toBe(true);
    expect(gaps).toEqual([...gaps].sort((a, b) => a - b));
    expect(times.length).toBeLessThanOrEqual(10);
    expect(times.at(-1)).toBeLessThan(1_000);
    expect(generator.missing).toBe(0);
    expect(generator.takeKeyframeRequest()).toBe(true);
    expect(generator.takeKeyframeRequest()).toBe(false);
  });

  test("on a short path ten requests are enough, long before the second is over", () => {
    const generator = new NackGenerator();
    generator.setRtt(5);
    feed(generator, [1, 3]);
    const times: number[] = [];
    for (let now = 0; now < 2_000; now++) if (generator.takeDue(now).length > 0) times.push(now);
    expect(times).toHaveLength(10);
    expect(times[1]).toBe(30);
    expect(times.at(-1)).toBeLessThan(300);
  });

  test("a packet given up before the last keyframe needs no other keyframe", () => {
    const generator = new NackGenerator();
    feed(generator, [1, 3, 4]);
    generator.keyframeReceived(4);
    for (let now = 0; now < 2_000; now += 10) generator.takeDue(now);
    expect(generator.abandoned).toBe(1);
    expect(generator.takeKeyframeRequest()).toBe(false);
  });

  test("after an outage a keyframe is requested instead of every packet", () => {
    const generator = new NackGenerator();
    feed(generator, [1, 2_000]);
    expect(generator.takeDue(1_000)).toEqual([]);
    expect(generator.takeKeyframeRequest()).toBe(true);
    feed(generator, [2_002], 1_990);
    expect(generator.takeDue(2_000)).toEqual([2_001]);
  });

  test("agrees with a brute-force model over any loss and reordering, wherever it starts", () => {
    fc.assert(
      fc.property(
        fc.nat(65_535),
        fc.array(fc.record({ lost: fc.boolean(), lateBy: fc.nat(6) }), { minLength: 2, maxLength: 150 }),
        (start, fates) => {
          const arrivals = fates
            .map(({ lost, lateBy }, i) => ({ extended: start + i, at: i + lateBy, lost }))
            .filter(({ lost }, i) => !lost || i === 0)
            .sort((a, b) => a.at - b.at || a.extended - b.extended);
          const generator = new NackGenerator();
          const seen = new Set<number>();
          const first = arrivals[0]?.extended ?? 0;
          let highest = first;
          for (const { extended } of arrivals) {
            generator.receive(extended & 0xffff, 0);
            seen.add(extended);
            highest = Math.max(highest, extended);
          }
          const expected: number[] = [];
          for (let extended = first + 1; extended < highest; extended++) {
            if (!seen.has(extended)) expected.push(extended & 0xffff);
          }
          expect(generator.takeDue(10).sort((a, b) => a - b)).toEqual(expected.sort((a, b) => a - b));
        },
      ),
      { seed: 7, numRuns: 500 },
    );
  });
});
