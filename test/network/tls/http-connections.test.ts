import { expect, test } from "bun:test";
import { HttpConnections } from "../../../src/network/tls/http-forwarding.ts";
import type { ConnectionHandler } from "../../../src/network/tls/sockets.ts";
import { fakeClock } from "../../harness/clock.ts";

function stage() {
  const clock = fakeClock();
  const state = { collections: 0, ends: 0 };
  const collect = () => void state.collections++;
  const connections = new HttpConnections(clock, collect, (error) => {
    throw error;
  });
  const open = (count: number): ConnectionHandler[] =>
    Array.from({ length: count }, () =>
      connections.add({ received() {}, drained() {}, closed: () => void state.ends++ }),
    );
  return { clock, state, connections, open };
}

test("what many connections left in memory is collected once few come any more, and not before", () => {
  const { clock, state, open } = stage();
  open(500);
  clock.advance(1_000);
  open(100);
  clock.advance(1_000);
  expect(state.collections).toBe(0);
  open(5);
  clock.advance(2_000);
  expect(state.collections).toBe(1);
  clock.advance(60_000);
  expect(state.collections).toBe(1);
});

test("those who go count as those who come; a few of either are not worth a collection", () => {
  const { clock, state, open } = stage();
  const opened = open(250);
  clock.advance(60_000);
  expect(state.collections).toBe(0);
  for (const connection of opened) connection.closed();
  clock.advance(2_000);
  expect(state.collections).toBe(1);
});

test("a connection whose end is reported twice has gone once", () => {
  const { state, connections, open } = stage();
  const [first] = open(2);
  first?.closed();
  first?.closed();
  expect(connections.open).toBe(1);
  expect(state.ends).toBe(1);
});
