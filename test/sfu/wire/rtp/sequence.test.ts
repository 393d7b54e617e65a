import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { SequenceExtender, sequenceDiff, timestampDiff } from "../../../../src/sfu/wire/rtp/sequence.ts";

describe("sequence numbers that wrap", () => {
  test.each([
    [0, 0, 0],
    [1, 0, 1],
    [0, 1, -1],
    [0, 65_535, 1],
    [65_535, 0, -1],
    [32_767, 0, 32_767],
    [32_768, 0, -32_768],
    [10, 65_530, 16],
  ])("%i − %i is %i on the 16-bit circle", (a, b, diff) => {
    expect(sequenceDiff(a, b)).toBe(diff);
  });

  test.each([
    [0, 0xffffffff, 1],
    [0xffffffff, 0, -1],
    [0x7fffffff, 0, 0x7fffffff],
    [0x80000000, 0, -0x80000000],
  ])("%i − %i is %i on the 32-bit circle", (a, b, diff) => {
    expect(timestampDiff(a, b)).toBe(diff);
  });

  test("any walk in steps below half the circle is followed exactly, through every wrap", () => {
    fc.assert(
      fc.property(
        fc.nat(65_535),
        fc.array(fc.integer({ min: -32_000, max: 32_767 }), { maxLength: 200 }),
        (start, steps) => {
          const extender = new SequenceExtender();
          let highest = start;
          expect(extender.extend(start)).toBe(start);
          for (const step of steps) {
            const real = highest + step;
            expect(extender.peek(real & 0xffff)).toBe(real);
            expect(extender.extend(real & 0xffff)).toBe(real);
            highest = Math.max(highest, real);
            expect(extender.highest).toBe(highest);
          }
        },
      ),
      { seed: 1, numRuns: 300 },
    );
  });
});
