import { heapStats } from "bun:jsc";
import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { SequenceMap } from "../../../../src/sfu/wire/rtp/sequence-map.ts";

/** By how many sequence numbers a packet may come late. */
const WINDOW = 1_024;

describe("outgoing sequence numbers", () => {
  test("a missing number is accepted within the window only, and no number is accepted twice", () => {
    for (const late of [1, 2, WINDOW - 1, WINDOW, WINDOW + 1, 2 * WINDOW, 2 * WINDOW + 1]) {
      const map = new SequenceMap(1_000);
      map.switchTo(0);
      expect(map.forward(0)).toBe(1_000);
      for (let extended = 2; extended <= 1 + late; extended++) expect(map.forward(extended)).toBe(1_000 + extended);
      expect([late, map.forward(1)]).toEqual([late, late < WINDOW ? 1_001 : -1]);
      expect(map.forward(1)).toBe(-1);
      expect(map.forward(1 + late)).toBe(-1);
    }
  });

  test("memory for missing sequence numbers is held for a window only", () => {
    const heldBytes = () => {
      Bun.gc(true);
      return heapStats().heapSize;
    };
    const maps = Array.from({ length: 400 }, () => new SequenceMap(1_000));
    const before = heldBytes();
    for (const map of maps) for (const extended of [0, 2]) map.forward(extended);
    const missing = heldBytes() - before;
    for (const map of maps) for (let extended = 3; extended < 3 + WINDOW; extended++) map.forward(extended);
    const settled = heldBytes() - before;
    expect(missing / maps.length).toBeGreaterThan(WINDOW);
    expect(settled / maps.length).toBeLessThan(WINDOW / 2);
    expect(maps[0]?.lastOutgoing).toBe(maps[399]?.lastOutgoing as number);
  });

  test("with losses, late packets and duplicates every packet gets its own number once", () => {
    const runs = fc.array(fc.record({ run: fc.nat(3 * WINDOW), lost: fc.nat(5), back: fc.nat(WINDOW + 50) }), {
      minLength: 1,
      maxLength: 8,
    });
    fc.assert(
      fc.property(runs, (history) => {
        const map = new SequenceMap(5_000);
        map.switchTo(100);
        const missing = new Set<number>();
        let next = 100;
        for (const { run, lost, back } of history) {
          for (let i = 0; i <= run; i++, next++) expect(map.forward(next)).toBe(next + 4_900);
          for (let i = 0; i < lost; i++, next++) missing.add(next);
          expect(map.forward(next)).toBe(next + 4_900);
          const highest = next++;
          for (const asked of [highest, highest - back, highest - 1, highest - lost]) {
            if (asked < 100) continue;
            const expected = missing.has(asked) && highest - asked < WINDOW ? asked + 4_900 : -1;
            expect(map.forward(asked)).toBe(expected);
            if (expected >= 0) missing.delete(asked);
          }
        }
      }),
      { seed: 1, numRuns: 60 },
    );
  });
});
