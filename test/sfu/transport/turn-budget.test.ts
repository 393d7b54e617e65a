import { describe, expect, test } from "bun:test";
import { TurnBudget } from "../../../src/sfu/transport/turn-budget.ts";

/** A budget, and the loop it waits for. */
function turn() {
  const turns: (() => void)[] = [];
  const budget = new TurnBudget((turned) => void turns.push(turned));
  const over = () => {
    for (const turned of turns.splice(0)) turned();
  };
  return { budget, turns, over };
}

describe("the work of one turn of the loop", () => {
  test("may take 200 ms, and not a millisecond more", () => {
    const { budget } = turn();
    const spent = Array.from({ length: 203 }, (_, ms) => budget.isSpent(1_000 + ms));
    expect(spent.indexOf(true)).toBe(201);
    expect(spent.slice(201)).toEqual([true, true]);
  });

  test("begins anew with every turn, and asks for it once", () => {
    const { budget, turns, over } = turn();
    for (let ms = 0; ms <= 250; ms++) budget.isSpent(ms);
    expect(budget.isSpent(251)).toBe(true);
    expect(turns).toHaveLength(1);
    over();
    expect(budget.isSpent(252)).toBe(false);
    for (let ms = 253; ms <= 452; ms++) expect(budget.isSpent(ms)).toBe(false);
    expect(budget.isSpent(453)).toBe(true);
  });

  test("leaves out the time in which a busy machine did not run us at all", () => {
    const { budget } = turn();
    budget.isSpent(0);
    // Two seconds for others, then the backlog, packet by packet.
    for (let packet = 0; packet < 1_000; packet++) expect(budget.isSpent(2_000 + packet * 0.1)).toBe(false);
    // Half a second lost at every tenth packet counts for 5 ms each.
    const { budget: hindered } = turn();
    const spent = Array.from({ length: 500 }, (_, packet) => hindered.isSpent(Math.floor(packet / 10) * 500));
    expect(spent.indexOf(true)).toBe(410);
  });
});
