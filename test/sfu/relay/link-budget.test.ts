import { expect, test } from "bun:test";
import { LinkBudget, LinkQueue } from "../../../src/sfu/relay/link-budget.ts";

/** The travel time, including the difference of the clocks. */
const WAY_MS = -5_000;
const BUFFER_MS = 800;

/**
 * Simulates a link with this capacity, whose full queue drops packets. Each second it sends all layers that fit, and returns what
 * was sent.
 */
function played(seconds: number, layers: readonly number[], capacityAt: (second: number) => number, loss = 0) {
  const [budget, queue] = [new LinkBudget(), new LinkQueue()];
  const sent: number[] = [];
  let queued = 0;
  for (let second = 0; second < seconds; second++) {
    const capacity = capacityAt(second);
    let bits = 0;
    for (const layer of layers) if (bits + layer <= budget.limit) bits += layer;
    sent.push(bits);
    const offered = queued + bits;
    const arrived = Math.min(offered, capacity);
    queued = Math.min(offered - arrived, (capacity * BUFFER_MS) / 1_000);
    const dropped = offered - arrived - queued;
    queue.arrived(WAY_MS + (queued / capacity) * 1_000, second * 1_000);
    const lossRatio = bits === 0 ? 0 : loss + (dropped / offered) * (1 - loss);
    const wanted = layers.reduce((sum, layer) => sum + layer, 0);
    const arrival = { bitsPerSecond: arrived * (1 - loss), lossRatio, queueMs: queue.takeMs() };
    budget.onReport(arrival, wanted, second * 1_000);
  }
  return { budget, sent };
}

const LAYERS = [150_000, 500_000, 1_700_000];
const ALL = 2_350_000;
const share = (sent: readonly number[], bits: number) => sent.filter((one) => one === bits).length / sent.length;

test("a link that carries everything is never limited", () => {
  const { budget, sent } = played(120, LAYERS, () => 100_000_000);
  expect(share(sent, ALL)).toBe(1);
  expect(budget.limit).toBe(Number.POSITIVE_INFINITY);
});

test("on a narrow link the highest layer stops within three seconds, and is tried again at growing intervals", () => {
  const { sent } = played(600, LAYERS, () => 1_000_000);
  expect(sent.slice(3, 10).every((bits) => bits <= 650_000)).toBe(true);
  expect(share(sent.slice(3), 650_000)).toBeGreaterThan(0.9);
  expect(sent.slice(3).every((bits) => bits >= 150_000)).toBe(true);
  const tries = (part: readonly number[]) => part.filter((bits, at) => bits === ALL && part[at - 1] !== ALL).length;
  expect(tries(sent.slice(3, 200))).toBeGreaterThan(tries(sent.slice(400)));
});

test("a link that becomes wide again gets all layers within a minute, and no limit", () => {
  const { budget, sent } = played(240, LAYERS, (second) => (second < 60 ? 1_000_000 : 100_000_000));
  expect(sent.slice(120).every((bits) => bits === ALL)).toBe(true);
  expect(budget.limit).toBe(Number.POSITIVE_INFINITY);
});

test("losses that do not depend on the load cost one try, and no layer for long", () => {
  const { sent } = played(120, LAYERS, () => 100_000_000, 0.15);
  expect(share(sent.slice(60), ALL)).toBe(1);
});

test("a longer route is mistaken for a queue for at most two minutes", () => {
  const queue = new LinkQueue();
  const queues: (number | null)[] = [];
  for (let second = 0; second < 200; second++) {
    for (const late of [0, 300, 80]) queue.arrived((second < 30 ? 40 : 240) + late, second * 1_000);
    queues.push(queue.takeMs());
  }
  expect(queues.slice(0, 30).every((ms) => ms === 0)).toBe(true);
  expect(queues[60]).toBe(200);
  expect(queues.slice(150).every((ms) => ms === 0)).toBe(true);
  expect(queue.takeMs()).toBe(null);
});
