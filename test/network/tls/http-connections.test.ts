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

test("memory is collected once few connections come after many, and not before", () => {
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

test("closed connections count like opened ones, and a few of either trigger no collection", () => {
  const { clock, state, open } = stage();
  const opened = open(250);
  clock.advance(60_000);
  expect(state.collections).toBe(0);
  for (const connection of opened) connection.closed();
  clock.advance(2_000);
  expect(state.collections).toBe(1);
});

test("a connection whose close is reported twice is counted once", () => {
  const { state, connections, open } = stage();
  const [first] = open(2);
  first?.closed();
  first?.closed();
  expect(connections.open).toBe(1);
  expect(state.ends).toBe(1);
});
