import { describe, expect, test } from "bun:test";
import { EventLoopBudget } from "../../../src/sfu/transport/event-loop-budget.ts";

/** A budget, and the event loop that it waits for. */
function create() {
  const waiting: (() => void)[] = [];
  const budget = new EventLoopBudget((run) => void waiting.push(run));
  const runEventLoop = () => {
    for (const run of waiting.splice(0)) run();
  };
  return { budget, waiting, runEventLoop };
}

describe("the budget for packets before the event loop runs", () => {
  test("is 200 ms, and not a millisecond more", () => {
    const { budget } = create();
    const spent = Array.from({ length: 203 }, (_, ms) => budget.isSpent(1_000 + ms));
    expect(spent.indexOf(true)).toBe(201);
    expect(spent.slice(201)).toEqual([true, true]);
  });

  test("is full again after the event loop has run, for which it asks once", () => {
    const { budget, waiting, runEventLoop } = create();
    for (let ms = 0; ms <= 250; ms++) budget.isSpent(ms);
    expect(budget.isSpent(251)).toBe(true);
    expect(waiting).toHaveLength(1);
    runEventLoop();
    expect(budget.isSpent(252)).toBe(false);
    for (let ms = 253; ms <= 452; ms++) expect(budget.isSpent(ms)).toBe(false);
    expect(budget.isSpent(453)).toBe(true);
  });

  test("does not count the time in which the machine did not run the process", () => {
    const { budget } = create();
    budget.isSpent(0);
    // Two seconds for others, then the backlog, packet by packet.
    for (let packet = 0; packet < 1_000; packet++) expect(budget.isSpent(2_000 + packet * 0.1)).toBe(false);
    // Half a second lost at every tenth packet counts for 5 ms each.
    const { budget: hindered } = create();
    const spent = Array.from({ length: 500 }, (_, packet) => hindered.isSpent(Math.floor(packet / 10) * 500));
    expect(spent.indexOf(true)).toBe(410);
  });
});
