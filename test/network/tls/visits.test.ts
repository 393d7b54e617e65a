import { expect, test } from "bun:test";
import type { Carrier } from "../../../src/network/tls/carrier.ts";
import { Visits } from "../../../src/network/tls/visits.ts";
import { fakeClock } from "../../harness/clock.ts";

function stage() {
  const clock = fakeClock();
  const state = { collections: 0, ends: 0 };
  const collect = () => void state.collections++;
  const visits = new Visits(clock, collect, (error) => {
    throw error;
  });
  const come = (count: number): Carrier[] =>
    Array.from({ length: count }, () => visits.begin({ received() {}, drained() {}, closed: () => void state.ends++ }));
  return { clock, state, visits, come };
}

test("what many connections left in memory is collected once few come any more, and not before", () => {
  const { clock, state, come } = stage();
  come(500);
  clock.advance(1_000);
  come(100);
  clock.advance(1_000);
  expect(state.collections).toBe(0);
  come(5);
  clock.advance(2_000);
  expect(state.collections).toBe(1);
  clock.advance(60_000);
  expect(state.collections).toBe(1);
});

test("those who go count as those who come; a few of either are not worth a collection", () => {
  const { clock, state, come } = stage();
  const visitors = come(250);
  clock.advance(60_000);
  expect(state.collections).toBe(0);
  for (const visitor of visitors) visitor.closed();
  clock.advance(2_000);
  expect(state.collections).toBe(1);
});

test("a connection whose end is reported twice has gone once", () => {
  const { state, visits, come } = stage();
  const [first] = come(2);
  first?.closed();
  first?.closed();
  expect(visits.open).toBe(1);
  expect(state.ends).toBe(1);
});
