import { expect, test } from "bun:test";
import {
  type CooperativeTask,
  createRunCooperatively,
  stringifyCooperatively,
} from "../../../src/kernel/scheduling/cooperative-task.ts";

/** An event loop whose clock only the tasks move. */
function createSlowLoop() {
  let nowMs = 0;
  let scheduled: (() => void)[] = [];
  const run = createRunCooperatively({ clock: () => nowMs, nextTick: (callback) => scheduled.push(callback) });
  return {
    run,
    *task(name: string, steps: number, log: string[], stepMs = 0.3): CooperativeTask<string> {
      for (let n = 0; n < steps; n++) {
        log.push(name);
        nowMs += stepMs;
        yield;
      }
      return `${name} is done`;
    },
    /** Runs one tick and returns how long it took. */
    tick(): number {
      const before = nowMs;
      const due = scheduled;
      scheduled = [];
      for (const callback of due) callback();
      return nowMs - before;
    },
    get isIdle(): boolean {
      return scheduled.length === 0;
    },
  };
}

test("[17] a long task takes a millisecond per tick, for as many ticks as it needs", async () => {
  const loop = createSlowLoop();
  const log: string[] = [];
  const done = loop.run(loop.task("a", 100, log));
  expect(log).toEqual([]);
  let ticks = 0;
  for (; !loop.isIdle; ticks++) expect(loop.tick()).toBeLessThan(1.4);
  expect(ticks).toBeGreaterThan(20);
  expect(await done).toBe("a is done");
  expect(log).toHaveLength(100);
});

test("[17] a hundred tasks take no more of a tick than one, and run one step each in turn", async () => {
  const loop = createSlowLoop();
  const log: string[] = [];
  const all = Array.from({ length: 100 }, (_, n) => loop.run(loop.task(String(n), 3, log)));
  while (!loop.isIdle) expect(loop.tick()).toBeLessThan(1.4);
  expect(new Set(log.slice(0, 100)).size).toBe(100);
  expect((await Promise.all(all)).length).toBe(100);
});

test("a task that throws is rejected, and the others continue", async () => {
  const loop = createSlowLoop();
  const log: string[] = [];
  const failing = loop.run(
    (function* (): CooperativeTask<string> {
      yield;
      throw new Error("no more");
    })(),
  );
  const other = loop.run(loop.task("b", 2, log));
  while (!loop.isIdle) loop.tick();
  expect(failing).rejects.toThrow("no more");
  expect(await other).toBe("b is done");
});

test("JSON that is written cooperatively equals JSON.stringify", () => {
  const value = { a: { b: { c: [1, { d: null }], e: undefined }, 'f"g': "h" }, i: null, j: [undefined], k: {} };
  for (const levels of [1, 2, 3, 9]) {
    const task = stringifyCooperatively(value, levels);
    let step = task.next();
    while (!step.done) step = task.next();
    expect(step.value).toBe(JSON.stringify(value));
  }
});
