import { describe, expect, test } from "bun:test";
import { Impairment, type ImpairmentOptions, seededRandom } from "../../../src/kernel/net/impairment.ts";

/** Sends `count` packets `everyMs` apart; gives what arrives as [number, time]. */
function run(options: ImpairmentOptions, count = 10_000, everyMs = 1, bytes = 1_000, seed = 1): [number, number][] {
  const network = new Impairment<number>(seed, options);
  const arrived: [number, number][] = [];
  const collect = (untilMs: number) => {
    while (network.nextDueMs !== undefined && network.nextDueMs <= untilMs) {
      const at = network.nextDueMs;
      for (const packet of network.takeDue(at)) arrived.push([packet, at]);
    }
  };
  for (let i = 0; i < count; i++) {
    collect(i * everyMs);
    network.push(i, bytes, i * everyMs);
  }
  collect(Number.MAX_SAFE_INTEGER);
  return arrived;
}

const inOrder = (arrived: [number, number][]) => arrived.every(([n], i) => i === 0 || n > (arrived[i - 1]?.[0] ?? -1));

describe("a bad network on demand", () => {
  test("without options nothing is lost or delayed", () => {
    expect(run({}, 100)).toEqual(Array.from({ length: 100 }, (_, i) => [i, i]));
  });

  test("the same seed loses and delays the same packets, and another seed others", () => {
    const options = { lossRatio: 0.1, jitterMs: 50, duplicateRatio: 0.1, reorderRatio: 0.1 };
    expect(run(options, 500)).toEqual(run(options, 500));
    expect(run(options, 500, 1, 1_000, 2)).not.toEqual(run(options, 500));
  });

  test("5 % loss is 5 % loss", () => {
    expect(run({ lossRatio: 0.05 }).length / 10_000).toBeCloseTo(0.95, 1.7);
  });

  test("a burst drops all packets for 200 ms of each second, and no others", () => {
    const arrived = run({ burst: { periodMs: 1_000, lengthMs: 200 } });
    expect(arrived).toHaveLength(8_000);
    expect(arrived.every(([n]) => n % 1_000 >= 200)).toBe(true);
  });

  test("delay and jitter stay within their bounds and in order", () => {
    const arrived = run({ delayMs: 100, jitterMs: 100 }, 2_000, 10);
    expect(inOrder(arrived)).toBe(true);
    const delays = arrived.map(([n, at]) => at - n * 10);
    expect(Math.min(...delays)).toBeGreaterThanOrEqual(100);
    expect(Math.max(...delays)).toBeLessThanOrEqual(200);
    expect(Math.max(...delays) - Math.min(...delays)).toBeGreaterThan(80);
  });

  test("reordering loses nothing, duplication adds its share", () => {
    const reordered = run({ reorderRatio: 0.1, reorderMs: 5 });
    expect(reordered).toHaveLength(10_000);
    expect(inOrder(reordered)).toBe(false);
    expect(run({ duplicateRatio: 0.2 }).length / 10_000).toBeCloseTo(1.2, 1.5);
  });

  test("a link of 300 kbit/s passes 300 kbit/s, delays by its queue and drops the rest", () => {
    // 1,000 bytes every 10 ms are 800 kbit/s.
    const arrived = run({ bandwidthBitsPerSecond: 300_000, queueBytes: 15_000 }, 1_000, 10);
    const seconds = ((arrived.at(-1)?.[1] ?? 0) - 0) / 1000;
    expect((arrived.length * 8_000) / seconds).toBeCloseTo(300_000, -4);
    const delays = arrived.map(([n, at]) => at - n * 10);
    expect(Math.max(...delays)).toBeLessThanOrEqual((15_000 * 8) / 300 + 1);
    expect(Math.max(...delays)).toBeGreaterThan(350);
    expect(inOrder(arrived)).toBe(true);
  });

  test("options can change while packets are under way", () => {
    const network = new Impairment<string>(1, { delayMs: 100 });
    network.push("slow", 1, 0);
    network.set({ lossRatio: 1 });
    network.push("lost", 1, 1);
    network.set({});
    network.push("waits for its turn", 1, 2);
    expect(network.takeDue(99)).toEqual([]);
    expect(network.takeDue(100)).toEqual(["slow", "waits for its turn"]);
    expect(network).toMatchObject({ lost: 1, delivered: 2 });
  });

  test("the random numbers are uniformly distributed", () => {
    const random = seededRandom(7);
    const buckets = new Array<number>(10).fill(0);
    for (let i = 0; i < 100_000; i++) {
      const bucket = Math.floor(random() * 10);
      buckets[bucket] = (buckets[bucket] ?? 0) + 1;
    }
    for (const count of buckets) expect(Math.abs(count - 10_000)).toBeLessThan(500);
  });
});
