import { heapSize } from "bun:jsc";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createLeftovers, createLeftoversAndCode, whenCalm } from "../../src/kernel/calm.ts";
import { closeRuntime, createRuntime } from "../../src/kernel/runtime.ts";
import { fakeClock } from "../harness/clock.ts";
import { testConfig } from "../harness/test-config.ts";

const MIB = 1_048_576;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stoa-leftovers-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** Of so many MiB, of which a collection leaves fewer, and one of what is young takes only that. */
function heap(stays: number) {
  const state = { old: 0, young: 0, stays, collections: 0 };
  const collect = createLeftovers({
    bytes: () => (state.old + state.young) * MIB,
    collectYoung() {
      state.young = 0;
    },
    collect() {
      state.collections++;
      state.young = 0;
      state.old = state.stays;
    },
    shrink() {},
  });
  const at = (old: number, young = 0) => {
    state.old = old;
    state.young = young;
    collect();
    return state.collections;
  };
  return { state, at };
}

test("[17] a thread is stopped for what a storm left, and not for what there always is", () => {
  const { at } = heap(40);
  expect(at(100)).toBe(1);
  // A tenth more than was kept, and one MiB.
  expect(at(44)).toBe(1);
  expect(at(46)).toBe(2);
});

test("[17] what was in use in the middle of a storm is looked for again after it", () => {
  const { state, at } = heap(40);
  expect(at(100)).toBe(1);
  state.stays = 70;
  expect(at(100)).toBe(2);
  // Let go of since, and no more than there was.
  state.stays = 40;
  expect(at(70)).toBe(3);
  expect(at(44)).toBe(3);
});

test("[17] what is in use for good from now on stops the thread a few times, and then no more", () => {
  const { state, at } = heap(40);
  expect(at(100)).toBe(1);
  state.stays = 60;
  for (let storm = 0; storm < 30; storm++) at(60);
  const taken = state.collections;
  expect(taken).toBeLessThan(16);
  expect(at(60)).toBe(taken);
  // And there is less again.
  state.stays = 40;
  expect(at(70)).toBe(taken + 1);
  expect(at(46)).toBe(taken + 2);
});

test("[17] what is only young is collected for little, and no reason to stop the thread for long", () => {
  const { state, at } = heap(40);
  expect(at(100)).toBe(1);
  expect(at(40, 100)).toBe(1);
  expect(state.young).toBe(0);
  expect(at(50, 100)).toBe(2);
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

test("[17] little is what is little beside the storm: what it left to be done does not put off the rest for ever", () => {
  const clock = fakeClock();
  let done = 0;
  const calm = { enough: 500, lookEveryMs: 15_000, atMost: 150, share: 1 / 3 };
  const fail = (error: unknown) => {
    throw error;
  };
  const watch = whenCalm(calm, clock, () => void done++, fail);
  const happen = (count: number) => {
    for (let n = 0; n < count; n++) watch.happened();
  };
  const next = (count: number) => {
    happen(count);
    clock.advance(15_000);
    return done;
  };
  // From here on it is looked at.
  happen(500);
  // As many all the time are no storm, and never little.
  for (let look = 0; look < 10; look++) expect(next(600)).toBe(0);
  expect(next(150)).toBe(1);
  happen(500);
  expect(next(1_800)).toBe(1);
  expect(next(601)).toBe(1);
  expect(next(600)).toBe(2);
  // The next one is measured by itself.
  happen(500);
  expect(next(400)).toBe(2);
  expect(next(151)).toBe(2);
  expect(next(150)).toBe(3);
});

test("[17] compiled code is thrown away after a storm, at most every five minutes, and never after a busy minute", () => {
  const clock = fakeClock();
  const done: string[] = [];
  const own = {
    bytes: () => 100 * MIB,
    collectYoung() {},
    collect: () => void done.push("collected"),
    shrink: () => void done.push("shrunk"),
  };
  const calm = createLeftoversAndCode(500, clock.now, own);
  const after = (most: number, ms: number) => {
    clock.advance(ms);
    done.length = 0;
    calm(most);
    return done.join();
  };
  expect(after(499, 0)).toBe("collected");
  expect(after(500, 0)).toBe("shrunk");
  expect(after(0, 600_000)).not.toBe("shrunk");
  expect(after(500, 0)).toBe("shrunk");
  // Later than now, though nothing has happened since.
  expect(after(5_000, 299_999)).not.toBe("shrunk");
  expect(after(0, 1)).toBe("shrunk");
  expect(after(0, 600_000)).not.toBe("shrunk");
});

test("[17] whoever waits for calm is told how much happened at the most before", () => {
  const clock = fakeClock();
  const told: number[] = [];
  const calm = { enough: 500, lookEveryMs: 15_000, atMost: 250 };
  const fail = (error: unknown) => {
    throw error;
  };
  const watch = whenCalm(calm, clock, (most) => void told.push(most), fail);
  const happen = (count: number) => {
    for (let n = 0; n < count; n++) watch.happened();
  };
  const next = (count: number) => {
    happen(count);
    clock.advance(15_000);
  };
  // From here on it is looked at.
  happen(500);
  next(700);
  next(900);
  next(300);
  next(250);
  expect(told).toEqual([900]);
  happen(500);
  next(0);
  expect(told).toEqual([900, 0]);
});

test("[17] a thread whose code was thrown away goes on as before, with less in its heap", async () => {
  const script = `
    const jsc = require("bun:jsc");
    const works = Array.from({ length: 3_000 }, (_, n) => new Function("x", "return x.map((y) => y * " + n + ").join()"));
    const all = () => works.map((work) => work([1, 2, 3])).join("|");
    let before = "";
    for (let round = 0; round < 30; round++) before = all();
    jsc.fullGC();
    const heap = jsc.heapSize();
    Bun.shrink();
    setTimeout(() => console.log(JSON.stringify({ less: heap - jsc.heapSize(), same: all() === before })), 100);
  `;
  const child = Bun.spawn([process.execPath, "-e", script], { stdout: "pipe" });
  const { less, same } = await new Response(child.stdout).json();
  expect(same).toBe(true);
  expect(less).toBeGreaterThan(2 * MIB);
});
