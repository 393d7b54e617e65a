import { expect, test } from "bun:test";
import { repacked } from "../../src/kernel/repack.ts";

type Kept = { hash: string; body: string; at: number };

/** What a request leaves behind for the next collection. */
function request(number: number): object[] {
  return Array.from({ length: 300 }, (_, n) => ({ name: `n${number}-${n}`, list: [n, `v${n}`] }));
}

/** One thing kept of every request, as a storm leaves it. */
function storm(): Map<string, Kept> {
  const kept = new Map<string, Kept>();
  let largest = 0;
  for (let number = 0; number < 6_000; number++) {
    largest = Math.max(largest, request(number).length);
    kept.set(`key-${number}-${Math.random()}`, { hash: `${Math.random()}`, body: `body of ${number}`, at: number });
  }
  expect(largest).toBe(300);
  return kept;
}

/** Of blocks with anything in them, once all that is over has been collected. */
async function heldMiB(): Promise<number> {
  for (let round = 0; round < 2; round++) {
    Bun.gc(true);
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage().heapTotal / 1_048_576;
}

test("what a storm left scattered takes little room once it was put together", async () => {
  const before = await heldMiB();
  let kept = storm();
  const [sample] = [...kept].slice(4_321, 4_322);
  const scattered = (await heldMiB()) - before;
  kept = repacked(kept);
  const together = (await heldMiB()) - before;
  expect(scattered).toBeGreaterThan(3);
  expect(together).toBeLessThan(scattered / 2);
  expect([kept.size, kept.get(sample?.[0] ?? "")]).toEqual([6_000, sample?.[1]]);
});
