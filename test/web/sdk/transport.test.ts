import { afterEach, beforeEach, expect, test } from "bun:test";
import type { LocalTrack } from "../../../web/sdk/room/local-track.ts";
import type { VideoCodec } from "../../../web/sdk/room/peer/codecs.ts";
import { Transport } from "../../../web/sdk/room/peer/transport.ts";

/** A fake peer connection that, like a real one, never settles the operations pending at its close. */
class Connection extends EventTarget {
  static offers = 0;
  connectionState: RTCPeerConnectionState = "connected";
  sctp = null;
  close = () => {};
  /** The transceivers of the sending sections. */
  readonly transceivers: object[] = [];
  addTransceiver() {
    const transceiver = { sender: { replaceTrack: async () => {} } };
    this.transceivers.push(transceiver);
    return transceiver;
  }
  createOffer(): Promise<never> {
    Connection.offers += 1;
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
    request: () => Promise.reject(new Error("no request is expected")),
    subscribed: () => [],
    encryption: null,
    onState: () => {},
  });

test("[14] closing a transport during an offer settles all pending negotiations", async () => {
  const transport = opened();
  const negotiations = [transport.negotiate(), transport.negotiated()];
  while (Connection.offers === 0) await Promise.resolve();
  negotiations.push(transport.negotiate({ iceRestart: true }));
  transport.close();
  await Promise.all([...negotiations, transport.negotiate(), transport.negotiated()]);
  expect(Connection.offers).toBe(1);
});

test("[14] an idle sending section is reused only for a track with the same codec", async () => {
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
  const sections = (transport.pc as unknown as Connection).transceivers;
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
