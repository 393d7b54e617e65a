import { afterEach, beforeEach, expect, test } from "bun:test";
import { Transport } from "../../web/sdk/room/peer/transport.ts";

/** A connection that, like a real one, leaves open for ever what it was asked before it was closed. */
class Connection extends EventTarget {
  static asked = 0;
  connectionState: RTCPeerConnectionState = "connected";
  sctp = null;
  close = () => {};
  createOffer(): Promise<never> {
    Connection.asked += 1;
    return new Promise(() => {});
  }
}

const before = globalThis.RTCPeerConnection;
beforeEach(() => {
  globalThis.RTCPeerConnection = Connection as unknown as typeof RTCPeerConnection;
});
afterEach(() => {
  globalThis.RTCPeerConnection = before;
});

test("[14] nobody waits for a connection that was closed in the middle of an offer: all that is asked of it ends with it", async () => {
  const transport = new Transport({
    iceServers: [],
    relayOnly: false,
    request: () => Promise.reject(new Error("nothing is said")),
    subscribed: () => [],
    onState: () => {},
  });
  const offers = [transport.negotiate(), transport.upToDate()];
  while (Connection.asked === 0) await Promise.resolve();
  offers.push(transport.negotiate({ iceRestart: true }));
  transport.close();
  await Promise.all([...offers, transport.negotiate(), transport.upToDate()]);
  expect(Connection.asked).toBe(1);
});
