import { afterEach, beforeEach, describe, expect, jest, test } from "bun:test";
import { StoaError } from "../../../web/sdk/errors.ts";
import { MediaRecovery } from "../../../web/sdk/room/peer/media-recovery.ts";
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

/** A fake peer connection whose traffic the test controls. */
function connection() {
  const traffic = { received: 0, sent: 0, reportedAt: 0, checks: 0 };
  const pc = {
    connectionState: "connected" as RTCPeerConnectionState,
    getStats: async () =>
      new Map<string, object>([
        ["in", { type: "inbound-rtp", timestamp: 0, packetsReceived: traffic.received }],
        ["out", { type: "outbound-rtp", timestamp: 0, packetsSent: traffic.sent }],
        ["report", { type: "remote-inbound-rtp", timestamp: traffic.reportedAt }],
        ["pair", { type: "candidate-pair", timestamp: 0, bytesReceived: traffic.received * 100 + traffic.checks }],
      ]),
  };
  return { traffic, pc };
}

function startRecovery() {
  const events: string[] = [];
  /** `probes` are the time limits of the probes so far. */
  const server = { responds: true, losesOffers: false, probes: [] as (number | undefined)[] };
  let current = connection();
  const transport = () =>
    ({
      pc: current.pc,
      negotiate: async () => {
        events.push("offer");
        if (server.losesOffers)
          throw new StoaError("CLOSED", "closed", "The connection was lost before the response arrived.");
      },
    }) as unknown as Transport;
  const recovery = new MediaRecovery({
    signalingOpen: () => true,
    probe: async (withinMs) => {
      server.probes.push(withinMs);
      return server.responds;
    },
    onFlow: (flowing) => events.push(flowing ? "flows" : "stopped"),
    onRemedy: (remedy) => events.push(remedy),
    rebuild: async () => {
      current = connection();
      recovery.replace(transport());
    },
    giveUp: () => events.push("rejoin"),
  });
  recovery.watch(transport());
  recovery.stateChanged("connected");
  events.length = 0;
  return { recovery, events, server, now: () => current };
}

/** Lets time pass while the connection carries this traffic. */
async function pass(
  of: ReturnType<typeof startRecovery>,
  seconds: number,
  perHalfSecond: Partial<ReturnType<typeof connection>["traffic"]>,
) {
  for (let n = 0; n < seconds * 2; n++) {
    const { traffic } = of.now();
    for (const [name, amount] of Object.entries(perHalfSecond)) traffic[name as keyof typeof traffic] += amount;
    jest.advanceTimersByTime(500);
    for (let m = 0; m < 20; m++) await Promise.resolve();
  }
}

const BOTH = { received: 20, sent: 20, reportedAt: 500 };

describe("[14] a connected transport without media", () => {
  test("is recovered with one ICE restart and then a new connection when the server reports a stall", async () => {
    const call = startRecovery();
    call.recovery.stalled();
    await pass(call, 1, { sent: 20 });
    expect(call.events).toEqual(["stopped", "ice-restart", "offer"]);
    await pass(call, 2, { sent: 20 });
    expect(call.events).toHaveLength(3);
    await pass(call, 2, { sent: 20 });
    expect(call.events.slice(3)).toEqual(["new-connection"]);
    call.recovery.stateChanged("connected");
    call.recovery.flows();
    expect(call.events.slice(4)).toEqual(["flows"]);
    await pass(call, 60, BOTH);
    expect(call.events).toHaveLength(5);
    call.recovery.close();
  });

  test("goes through all remedies if reconnecting alone does not make media flow", async () => {
    const call = startRecovery();
    call.recovery.stalled();
    // The transport connects after every remedy, but carries no media.
    for (let n = 0; n < 30; n++) {
      await pass(call, 1, { sent: 20 });
      call.recovery.stateChanged("connected");
    }
    expect(call.events.filter((line) => line !== "offer" && line !== "stopped")).toEqual([
      "ice-restart",
      "new-connection",
      "new-connection",
      "rejoin",
    ]);
    call.recovery.close();
  });

  test("starts again with the first remedy only after five seconds of flow", async () => {
    const call = startRecovery();
    call.recovery.stalled();
    await pass(call, 0.5, BOTH);
    call.recovery.flows();
    await pass(call, 1, BOTH);
    call.recovery.stalled();
    await pass(call, 0.5, BOTH);
    expect(call.events.filter((line) => /-/.test(line))).toEqual(["ice-restart", "new-connection"]);
    call.recovery.flows();
    await pass(call, 8, BOTH);
    call.recovery.stalled();
    await pass(call, 0.5, BOTH);
    expect(call.events.filter((line) => /-/.test(line))).toEqual(["ice-restart", "new-connection", "ice-restart"]);
    call.recovery.close();
  });

  test("is also detected locally, when no packets and no receiver reports arrive", async () => {
    const call = startRecovery();
    await pass(call, 6, BOTH);
    await pass(call, 7, { sent: 20 });
    expect(call.events).toEqual([]);
    await pass(call, 6, { sent: 20 });
    expect(call.events).toEqual(["stopped", "ice-restart", "offer"]);
    await pass(call, 3, BOTH);
    expect(call.events.at(-1)).toBe("flows");
    call.recovery.close();
  });

  test("is left alone if it neither sends nor receives", async () => {
    const call = startRecovery();
    await pass(call, 120, {});
    expect(call.events).toEqual([]);
    call.recovery.close();
    expect([page.listenerCount(), jest.getTimerCount()]).toEqual([0, 0]);
  });
});

describe("[14] a transport that the browser reports as disconnected", () => {
  const disconnected = () => {
    const of = startRecovery();
    of.now().pc.connectionState = "disconnected";
    of.recovery.stateChanged("disconnected");
    return of;
  };

  test("is left alone while packets arrive", async () => {
    const of = disconnected();
    await pass(of, 9, { received: 20 });
    expect([...new Set(of.events)]).toEqual(["stopped", "flows"]);
    await pass(of, 4, { sent: 20 });
    expect(of.events.slice(-2)).toEqual(["ice-restart", "offer"]);
  });

  test("restarts ICE after two seconds without packets", async () => {
    const of = disconnected();
    await pass(of, 1.5, { sent: 20 });
    expect(of.events).toEqual(["stopped"]);
    await pass(of, 1, { sent: 20 });
    expect(of.events).toEqual(["stopped", "ice-restart", "offer"]);
  });
});

describe("[14] a lost network", () => {
  test("uses up no remedy, so the first one is applied when the network returns", async () => {
    const of = startRecovery();
    await pass(of, 1, BOTH);
    of.server.responds = false;
    of.now().pc.connectionState = "disconnected";
    of.recovery.stateChanged("disconnected");
    await pass(of, 20, { sent: 20 });
    of.now().pc.connectionState = "failed";
    of.recovery.stateChanged("failed");
    await pass(of, 20, { sent: 20 });
    expect(of.events).toEqual(["stopped", "stopped"]);
    of.server.responds = true;
    of.recovery.check();
    await pass(of, 1, { sent: 20 });
    expect(of.events.slice(2)).toEqual(["ice-restart", "offer"]);
    of.recovery.close();
  });

  test("does not count an offer that was lost with the socket as an attempt", async () => {
    const of = startRecovery();
    of.server.losesOffers = true;
    of.recovery.stalled();
    await pass(of, 1, { sent: 20 });
    of.server.losesOffers = false;
    of.recovery.check();
    await pass(of, 1, { sent: 20 });
    expect(of.events).toEqual(["stopped", "ice-restart", "offer", "ice-restart", "offer"]);
    of.recovery.close();
  });

  test("is suspected as soon as nothing arrives, and ICE restarts on the resume even if the browser still reports connected", async () => {
    const of = startRecovery();
    await pass(of, 5, BOTH);
    expect(of.server.probes).toEqual([]);
    await pass(of, 2, { sent: 20 });
    // There is one probe with a short limit, after which another socket is opened.
    expect(of.server.probes).toEqual([1_000]);
    of.recovery.check();
    await pass(of, 0.5, { sent: 20 });
    expect(of.events).toEqual(["ice-restart", "offer"]);
    of.recovery.close();
  });

  test("is not suspected while connectivity checks pass", async () => {
    const of = startRecovery();
    await pass(of, 5, BOTH);
    await pass(of, 5, { sent: 20, checks: 100 });
    expect(of.server.probes).toEqual([]);
    of.recovery.check();
    await pass(of, 0.5, { checks: 100 });
    expect(of.events).toEqual([]);
    of.recovery.close();
  });
});
