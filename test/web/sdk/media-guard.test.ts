import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { StoaError } from "../../../web/sdk/errors.ts";
import { MediaGuard } from "../../../web/sdk/room/peer/media-guard.ts";
import type { Transport } from "../../../web/sdk/room/peer/transport.ts";
import { openPage, type Page } from "./page.ts";

let page: Page;
beforeEach(() => {
  jest.useFakeTimers();
  page = openPage();
});
afterEach(() => {
  jest.useRealTimers();
  page.close();
});

/** A peer connection of which a test says what it carries. */
function connection() {
  const carried = { received: 0, sent: 0, reportedAt: 0, checks: 0 };
  const pc = {
    connectionState: "connected" as RTCPeerConnectionState,
    getStats: async () =>
      new Map<string, object>([
        ["in", { type: "inbound-rtp", timestamp: 0, packetsReceived: carried.received }],
        ["out", { type: "outbound-rtp", timestamp: 0, packetsSent: carried.sent }],
        ["report", { type: "remote-inbound-rtp", timestamp: carried.reportedAt }],
        ["pair", { type: "candidate-pair", timestamp: 0, bytesReceived: carried.received * 100 + carried.checks }],
      ]),
  };
  return { carried, pc };
}

function guarded() {
  const said: string[] = [];
  /** Of the socket: whether the server answers over it, and how soon that was to be known each time it was asked. */
  const server = { answers: true, losesOffers: false, asked: [] as (number | undefined)[] };
  let current = connection();
  const transport = () =>
    ({
      pc: current.pc,
      negotiate: async () => {
        said.push("offer");
        if (server.losesOffers)
          throw new StoaError("CLOSED", "closed", "The connection was lost before the answer came.");
      },
    }) as unknown as Transport;
  const guard = new MediaGuard({
    signalingOpen: () => true,
    reach: async (withinMs) => {
      server.asked.push(withinMs);
      return server.answers;
    },
    onFlow: (flowing) => said.push(flowing ? "flows" : "stopped"),
    onRemedy: (remedy) => said.push(remedy),
    rebuild: async () => {
      current = connection();
      guard.replace(transport());
    },
    giveUp: () => said.push("join anew"),
  });
  guard.watch(transport());
  guard.stateChanged("connected");
  said.length = 0;
  return { guard, said, server, now: () => current };
}

/** Seconds in which the connection carries this much a second. */
async function pass(
  of: ReturnType<typeof guarded>,
  seconds: number,
  carries: Partial<ReturnType<typeof connection>["carried"]>,
) {
  for (let n = 0; n < seconds * 2; n++) {
    const { carried } = of.now();
    for (const [name, amount] of Object.entries(carries)) carried[name as keyof typeof carried] += amount;
    jest.advanceTimersByTime(500);
    for (let m = 0; m < 20; m++) await Promise.resolve();
  }
}

const BOTH = { received: 20, sent: 20, reportedAt: 500 };

describe("[14] connected, but silent", () => {
  test("the server says so: ICE is restarted once, then there is a new connection in the same session", async () => {
    const call = guarded();
    call.guard.stalled();
    await pass(call, 1, { sent: 20 });
    expect(call.said).toEqual(["stopped", "ice-restart", "offer"]);
    await pass(call, 2, { sent: 20 });
    expect(call.said).toHaveLength(3);
    await pass(call, 2, { sent: 20 });
    expect(call.said.slice(3)).toEqual(["new-connection"]);
    call.guard.stateChanged("connected");
    call.guard.flows();
    expect(call.said.slice(4)).toEqual(["flows"]);
    await pass(call, 60, BOTH);
    expect(call.said).toHaveLength(5);
    call.guard.close();
  });

  test("a connection that comes up is no proof of flow: only the server, or five seconds of it, ends the trouble", async () => {
    const call = guarded();
    call.guard.stalled();
    // Up after every remedy, and silent each time.
    for (let n = 0; n < 30; n++) {
      await pass(call, 1, { sent: 20 });
      call.guard.stateChanged("connected");
    }
    expect(call.said.filter((line) => line !== "offer" && line !== "stopped")).toEqual([
      "ice-restart",
      "new-connection",
      "new-connection",
      "join anew",
    ]);
    call.guard.close();
  });

  test("what was tried is forgotten after five seconds of flow, not before", async () => {
    const call = guarded();
    call.guard.stalled();
    await pass(call, 0.5, BOTH);
    call.guard.flows();
    await pass(call, 1, BOTH);
    call.guard.stalled();
    await pass(call, 0.5, BOTH);
    expect(call.said.filter((line) => /-/.test(line))).toEqual(["ice-restart", "new-connection"]);
    call.guard.flows();
    await pass(call, 8, BOTH);
    call.guard.stalled();
    await pass(call, 0.5, BOTH);
    expect(call.said.filter((line) => /-/.test(line))).toEqual(["ice-restart", "new-connection", "ice-restart"]);
    call.guard.close();
  });

  test("it is noticed here too: what is sent is never reported on, and nothing comes", async () => {
    const call = guarded();
    await pass(call, 6, BOTH);
    await pass(call, 7, { sent: 20 });
    expect(call.said).toEqual([]);
    await pass(call, 6, { sent: 20 });
    expect(call.said).toEqual(["stopped", "ice-restart", "offer"]);
    await pass(call, 3, BOTH);
    expect(call.said.at(-1)).toBe("flows");
    call.guard.close();
  });

  test("whoever neither sends nor receives is left in peace", async () => {
    const call = guarded();
    await pass(call, 120, {});
    expect(call.said).toEqual([]);
    call.guard.close();
    expect([page.left(), jest.getTimerCount()]).toEqual([0, 0]);
  });
});

describe("[14] disconnected, as a browser says after one lost check", () => {
  const disconnected = () => {
    const of = guarded();
    of.now().pc.connectionState = "disconnected";
    of.guard.stateChanged("disconnected");
    return of;
  };

  test("with packets still arriving nothing is done about it, for as long as they do", async () => {
    const of = disconnected();
    await pass(of, 9, { received: 20 });
    expect([...new Set(of.said)]).toEqual(["stopped", "flows"]);
    await pass(of, 4, { sent: 20 });
    expect(of.said.slice(-2)).toEqual(["ice-restart", "offer"]);
  });

  test("without any, ICE is restarted after two seconds", async () => {
    const of = disconnected();
    await pass(of, 1.5, { sent: 20 });
    expect(of.said).toEqual(["stopped"]);
    await pass(of, 1, { sent: 20 });
    expect(of.said).toEqual(["stopped", "ice-restart", "offer"]);
  });
});

describe("[14] a network that is gone", () => {
  test("uses up no remedy: the first one is still there when it returns, and nobody joins anew for it", async () => {
    const of = guarded();
    await pass(of, 1, BOTH);
    of.server.answers = false;
    of.now().pc.connectionState = "disconnected";
    of.guard.stateChanged("disconnected");
    await pass(of, 20, { sent: 20 });
    of.now().pc.connectionState = "failed";
    of.guard.stateChanged("failed");
    await pass(of, 20, { sent: 20 });
    expect(of.said).toEqual(["stopped", "stopped"]);
    of.server.answers = true;
    of.guard.check();
    await pass(of, 1, { sent: 20 });
    expect(of.said.slice(2)).toEqual(["ice-restart", "offer"]);
    of.guard.close();
  });

  test("an offer that was lost with the socket is made again, as if it had not been tried", async () => {
    const of = guarded();
    of.server.losesOffers = true;
    of.guard.stalled();
    await pass(of, 1, { sent: 20 });
    of.server.losesOffers = false;
    of.guard.check();
    await pass(of, 1, { sent: 20 });
    expect(of.said).toEqual(["stopped", "ice-restart", "offer", "ice-restart", "offer"]);
    of.guard.close();
  });

  test("is suspected as soon as nothing at all comes, and left at the resume, though the browser still says connected", async () => {
    const of = guarded();
    await pass(of, 5, BOTH);
    expect(of.server.asked).toEqual([]);
    await pass(of, 2, { sent: 20 });
    // Once, and with little patience; a second later another socket has been opened.
    expect(of.server.asked).toEqual([1_000]);
    of.guard.check();
    await pass(of, 0.5, { sent: 20 });
    expect(of.said).toEqual(["ice-restart", "offer"]);
    of.guard.close();
  });

  test("whose checks still pass is not: nobody speaks, and that is all", async () => {
    const of = guarded();
    await pass(of, 5, BOTH);
    await pass(of, 5, { sent: 20, checks: 100 });
    expect(of.server.asked).toEqual([]);
    of.guard.check();
    await pass(of, 0.5, { checks: 100 });
    expect(of.said).toEqual([]);
    of.guard.close();
  });
});
