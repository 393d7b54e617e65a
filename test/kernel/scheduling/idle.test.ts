import { heapSize } from "bun:jsc";
import { afterEach, beforeEach, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Log } from "../../../src/kernel/log.ts";
import { closeRuntime, createRuntime } from "../../../src/kernel/runtime.ts";
import { createIdleCollector, createIdleTasks, onIdle } from "../../../src/kernel/scheduling/idle.ts";
import { fakeClock } from "../../harness/clock.ts";
import { testConfig } from "../../harness/test-config.ts";

const MIB = 1_048_576;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "stoa-idle-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A heap in MiB; a full collection leaves `inUse` of it, a young one removes the young part. */
function createHeap(inUse: number) {
  const state = { old: 0, young: 0, inUse, collections: 0 };
  const collect = createIdleCollector({
    bytes: () => (state.old + state.young) * MIB,
    collectYoung() {
      state.young = 0;
    },
    collect() {
      state.collections++;
      state.young = 0;
      state.old = state.inUse;
    },
  });
  const at = (old: number, young = 0) => {
    state.old = old;
    state.young = young;
    collect();
    return state.collections;
  };
  return { state, at };
}

test("[17] a full collection runs for memory that a burst left, not for memory that is in use", () => {
  const { at } = createHeap(40);
  expect(at(100)).toBe(1);
  // The threshold is a tenth more than was in use, and one MiB.
  expect(at(44)).toBe(1);
  expect(at(46)).toBe(2);
});

test("[17] memory that was in use during a burst is collected after it", () => {
  const { state, at } = createHeap(40);
  expect(at(100)).toBe(1);
  state.inUse = 70;
  expect(at(100)).toBe(2);
  // Released since, without further growth.
  state.inUse = 40;
  expect(at(70)).toBe(3);
  expect(at(44)).toBe(3);
});

test("[17] memory that stays in use triggers a few full collections, and then none", () => {
  const { state, at } = createHeap(40);
  expect(at(100)).toBe(1);
  state.inUse = 60;
  for (let burst = 0; burst < 30; burst++) at(60);
  const collections = state.collections;
  expect(collections).toBeLessThan(16);
  expect(at(60)).toBe(collections);
  // Less memory is in use again.
  state.inUse = 40;
  expect(at(70)).toBe(collections + 1);
  expect(at(46)).toBe(collections + 2);
});

test("[17] young garbage alone is collected without a full collection", () => {
  const { state, at } = createHeap(40);
  expect(at(100)).toBe(1);
  expect(at(40, 100)).toBe(1);
  expect(state.young).toBe(0);
  expect(at(50, 100)).toBe(2);
});

test("[17] old garbage of a burst of commits is collected once the server is idle", async () => {
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
  // The object is old, so a young collection does not free it.
  Bun.gc(false);
  expect(heapSize()).toBeGreaterThan(withAll - 4 * MIB);
  clock.advance(15_000);
  expect(heapSize()).toBeLessThan(withAll - 15 * MIB);
  await closeRuntime(runtime);
});

test("[17] background activity that is small compared to the burst does not delay the task forever", () => {
  const clock = fakeClock();
  let runs = 0;
  const thresholds = { minEvents: 500, checkEveryMs: 15_000, maxEvents: 150, shareOfPeak: 1 / 3 };
  const fail = (error: unknown) => {
    throw error;
  };
  const watch = onIdle(thresholds, clock, () => void runs++, fail);
  const act = (count: number) => {
    for (let n = 0; n < count; n++) watch.activity();
  };
  const nextCheck = (count: number) => {
    act(count);
    clock.advance(15_000);
    return runs;
  };
  // The checks start here.
  act(500);
  // Constant activity is never idle.
  for (let check = 0; check < 10; check++) expect(nextCheck(600)).toBe(0);
  expect(nextCheck(150)).toBe(1);
  act(500);
  expect(nextCheck(1_800)).toBe(1);
  expect(nextCheck(601)).toBe(1);
  expect(nextCheck(600)).toBe(2);
  // The next burst has its own peak.
  act(500);
  expect(nextCheck(400)).toBe(2);
  expect(nextCheck(151)).toBe(2);
  expect(nextCheck(150)).toBe(3);
});

function createTasks() {
  const clock = fakeClock();
  const ran: string[] = [];
  const log = { warn: () => ran.push("warning") } as unknown as Log;
  const tasks = createIdleTasks({ timers: clock, log });
  const commit = (times: number) => {
    for (let n = 0; n < times; n++) tasks.activity();
  };
  return { clock, ran, tasks, commit };
}

test("idle tasks run after a burst of commits, not during it and not after a few commits", () => {
  const { clock, ran, tasks, commit } = createTasks();
  tasks.add(() => ran.push("task"));
  commit(499);
  expect(clock.pending()).toBe(0);
  commit(1);
  for (let check = 0; check < 10; check++) {
    commit(251);
    clock.advance(15_000);
  }
  expect(ran).toEqual([]);
  commit(250);
  clock.advance(15_000);
  expect(ran).toEqual(["task"]);
  // The next burst starts counting from zero.
  commit(499);
  expect(clock.pending()).toBe(0);
  commit(1);
  clock.advance(15_000);
  expect(ran).toEqual(["task", "task"]);
});

test("idle tasks run once the rate of commits has halved, however many commits remain", () => {
  const { clock, ran, tasks, commit } = createTasks();
  tasks.add(() => ran.push("task"));
  // The checks start here.
  commit(500);
  for (const count of [900, 800, 600, 451]) {
    commit(count);
    clock.advance(15_000);
  }
  expect(ran).toEqual([]);
  commit(450);
  clock.advance(15_000);
  expect(ran).toEqual(["task"]);
  // That rate is usual from now on.
  for (let check = 0; check < 10; check++) {
    commit(450);
    clock.advance(15_000);
  }
  expect(ran).toEqual(["task"]);
});

test("an idle task that throws is logged, and the others run; a stopped watch runs nothing", () => {
  const { clock, ran, tasks, commit } = createTasks();
  tasks.add(() => {
    throw new Error("busy");
  });
  tasks.add(() => ran.push("task"));
  commit(500);
  clock.advance(15_000);
  expect(ran).toEqual(["warning", "task"]);
  commit(500);
  tasks.stop();
  expect(clock.pending()).toBe(0);
});
