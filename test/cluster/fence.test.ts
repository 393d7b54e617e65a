import { expect, test } from "bun:test";
import type { PeerAbstentions } from "../../src/cluster/abstention.ts";
import { Abstention } from "../../src/cluster/abstention.ts";
import { createFence } from "../../src/cluster/fence.ts";
import { createSockets, type NetworkSocket, type SocketData } from "../../src/kernel/socket/sockets.ts";
import { createElapsed } from "../../src/kernel/time/elapsed.ts";

/** A leadership whose lease the test ends, and peers with a given response. */
function fenceWith(answer: PeerAbstentions) {
  const state = { sureForMs: 10_000, answer, heard: [] as string[] };
  const fence = createFence({
    leadership: {
      term: 1,
      lost: new Promise(() => {}),
      undisputed: Promise.resolve(),
      unsureSince: null,
      sureForMs: () => state.sureForMs,
      peers: () => [],
      confirm: async () => {},
      resign: async () => {},
    },
    askPeers: async () => state.answer,
    leaseMs: 5_000,
    onOtherLeader: (reason) => state.heard.push(reason),
  });
  return { state, fence };
}

test("a leader is stale after its lease, unless every other server promises not to lead", async () => {
  const { state, fence } = fenceWith({ all: true, otherLeader: null });
  expect(fence.isStale()).toBe(false);
  state.sureForMs = 0;
  expect(fence.isStale()).toBe(true);
  expect(await fence.fresh()).toBe(true);
  fence.stop();
  expect(fence.isStale()).toBe(true);
  expect(await fence.fresh()).toBe(false);
});

test("a waiting request is answered when the log confirms, and refused when the server stops", async () => {
  const { state, fence } = fenceWith({ all: false, otherLeader: null });
  state.sureForMs = -1;
  const confirmed = fence.fresh();
  state.sureForMs = 10_000;
  expect(await confirmed).toBe(true);
  state.sureForMs = -1;
  const over = fence.fresh();
  fence.stop();
  expect(await over).toBe(false);
});

test("a stale leader that hears of another leader reports it", async () => {
  const { state, fence } = fenceWith({ all: false, otherLeader: "http://two" });
  state.sureForMs = -1;
  const asked = fence.fresh();
  while (state.heard.length === 0) await Bun.sleep(5);
  expect(state.heard[0]).toContain("http://two leads");
  fence.stop();
  expect(await asked).toBe(false);
});

test("a standby promises nothing while it reaches the log or tries to lead, and keeps its promise", async () => {
  const abstention = new Abstention();
  expect(abstention.promise()).toBe(false);
  abstention.logIsUnreachable = true;
  const trying = Promise.withResolvers<string>();
  const attempt = abstention.attemptToLead(() => trying.promise);
  expect(abstention.promise()).toBe(false);
  trying.resolve("tried");
  expect(await attempt).toBe("tried");
  expect(abstention.promise()).toBe(true);
  expect(await abstention.attemptToLead(async () => "led")).toBeNull();
});

test("a lease counts the time that a machine slept, and a clock that is set back does not extend it", () => {
  const at = { steady: 0, wall: 1_000_000 };
  const elapsed = createElapsed(
    () => at.steady,
    () => at.wall,
  );
  at.steady += 10;
  at.wall += 10;
  expect(elapsed()).toBe(10);
  at.wall += 60_000;
  expect(elapsed()).toBe(60_010);
  at.wall -= 3_600_000;
  at.steady += 5;
  expect(elapsed()).toBe(60_015);
});

test("frames at a stale leader wait in order, and are then handled or the socket is closed", async () => {
  const doubt = { isStale: false, end: Promise.withResolvers<boolean>() };
  const sockets = createSockets({ isStale: () => doubt.isStale, fresh: () => doubt.end.promise });
  const heard: string[] = [];
  const closed: number[] = [];
  let data: SocketData | null = null;
  const server = {
    upgrade: (_request: Request, options: { data: SocketData }) => {
      data = options.data;
      return true;
    },
    publish: () => {},
  };
  const received = (text: string | null) => heard.push(text ?? "");
  sockets.accept(server, new Request("http://x/"), {}, () => ({ received, closed: () => {} }));
  const ws = { close: (code: number) => closed.push(code) } as unknown as NetworkSocket;
  const { open, message } = data as unknown as SocketData;
  open(ws);
  message(ws, "one");
  doubt.isStale = true;
  message(ws, "two");
  message(ws, "three");
  expect(heard).toEqual(["one"]);
  doubt.isStale = false;
  // A later frame does not overtake the waiting ones.
  message(ws, "four");
  doubt.end.resolve(true);
  await Bun.sleep(0);
  expect(heard).toEqual(["one", "two", "three", "four"]);
  doubt.isStale = true;
  doubt.end = Promise.withResolvers();
  message(ws, "five");
  doubt.end.resolve(false);
  await Bun.sleep(0);
  expect([heard.length, closed]).toEqual([4, [1012]]);
});
