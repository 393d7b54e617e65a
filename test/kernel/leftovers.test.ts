import { heapSize } from "bun:jsc";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLeftovers } from "../../src/kernel/calm.ts";
import { closeRuntime, createRuntime } from "../../src/runtime.ts";
import { fakeClock } from "../harness/clock.ts";
import { testConfig } from "../harness/test-config.ts";

const MIB = 1_048_576;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stoa-leftovers-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Of so many MiB, of which a collection leaves fewer. */
function heap(stays: number) {
  const state = { mib: 0, stays, collections: 0 };
  const collect = createLeftovers({
    bytes: () => state.mib * MIB,
    collect() {
      state.collections++;
      state.mib = state.stays;
    },
  });
  const at = (mib: number) => {
    state.mib = mib;
    collect();
    return state.collections;
  };
  return { state, at };
}

test("[17] a thread is stopped for what a storm left, and not for what there always is", () => {
  const { state, at } = heap(40);
  expect(at(100)).toBe(1);
  // A quarter more than was kept, and four MiB.
  expect(at(53)).toBe(1);
  expect(at(55)).toBe(2);
  // More is in use by now: it is found out once.
  state.stays = 80;
  expect(at(90)).toBe(3);
  expect(at(90)).toBe(3);
  expect(at(105)).toBe(4);
});

test("[17] what requests held until the storm was over goes with it, though it has grown old", async () => {
  const clock = fakeClock();
  const runtime = createRuntime(testConfig({ DATA_DIR: folder }), { timers: clock, now: clock.now });
  const held: object[][] = [];
  for (let n = 0; n < 500; n++) {
    await runtime.write(() => {});
    held.push(Array.from({ length: 500 }, (_, item) => ({ name: `${n}-${item}`, list: [n, `v${item}`] })));
  }
  Bun.gc(true);
  const withAll = heapSize();
  held.length = 0;
  // It is old: a collection of what is new leaves it.
  Bun.gc(false);
  expect(heapSize()).toBeGreaterThan(withAll - 4 * MIB);
  clock.advance(15_000);
  expect(heapSize()).toBeLessThan(withAll - 15 * MIB);
  await closeRuntime(runtime);
});
