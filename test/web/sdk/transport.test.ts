import { afterEach, beforeEach, expect, test } from "bun:test";
import type { LocalTrack } from "../../../web/sdk/room/local-track.ts";
import type { VideoCodec } from "../../../web/sdk/room/peer/codecs.ts";
import { Transport } from "../../../web/sdk/room/peer/transport.ts";

/** A connection that, like a real one, leaves open for ever what it was asked before it was closed. */
class Connection extends EventTarget {
  static asked = 0;
  connectionState: RTCPeerConnectionState = "connected";
  sctp = null;
  close = () => {};
  /** One a section that is sent in. */
  readonly made: object[] = [];
  addTransceiver() {
    const transceiver = { sender: { replaceTrack: async () => {} } };
    this.made.push(transceiver);
    return transceiver;
  }
  createOffer(): Promise<never> {
    Connection.asked += 1;
    return new Promise(() => {});
  }
}

const before = { RTCPeerConnection: globalThis.RTCPeerConnection, RTCRtpReceiver: globalThis.RTCRtpReceiver };
beforeEach(() => {
  const RTCRtpReceiver = { getCapabilities: () => null };
  Object.assign(globalThis, { RTCPeerConnection: Connection, RTCRtpReceiver });
});
afterEach(() => {
  Object.assign(globalThis, before);
});

const opened = () =>
  new Transport({
    iceServers: [],
    relayOnly: false,
    request: () => Promise.reject(new Error("nothing is said")),
    subscribed: () => [],
    onState: () => {},
  });

test("[14] nobody waits for a connection that was closed in the middle of an offer: all that is asked of it ends with it", async () => {
  const transport = opened();
  const offers = [transport.negotiate(), transport.upToDate()];
  while (Connection.asked === 0) await Promise.resolve();
  offers.push(transport.negotiate({ iceRestart: true }));
  transport.close();
  await Promise.all([...offers, transport.negotiate(), transport.upToDate()]);
  expect(Connection.asked).toBe(1);
});

test("[14] a section that nothing is sent in any more takes what comes next, but not in another codec than it was made for", async () => {
  const transport = opened();
  const camera = (codec?: VideoCodec) =>
    ({
      kind: "video",
      source: "camera",
      encodings: [{}],
      codec,
      mediaStreamTrack: {},
      sender: null,
    }) as unknown as LocalTrack;
  const sections = (transport.pc as unknown as Connection).made;
  for (const [codec, count] of [
    ["VP8", 1],
    ["VP8", 1],
    ["VP9", 2],
    [undefined, 3],
    ["VP8", 3],
    ["VP9", 3],
  ] as const) {
    const track = camera(codec);
    await transport.send(track);
    expect(sections).toHaveLength(count);
    await transport.stopSending(track);
  }
  transport.close();
});
