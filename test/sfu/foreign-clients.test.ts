/** What gateways for other clients need of the media node: names for tracks, inactive sections, a second connection. */
import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { Negotiate } from "../../src/protocol/media-node.ts";
import { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { ALL, CAMERA, ROOM, RoomOfPeers } from "./room-of-peers.ts";

const TRACK = "trk_named-by-the-caller";

describe("for clients of another protocol", () => {
  let room: RoomOfPeers;
  let publisher: RtcPeer;
  let source: RtpSource;
  beforeEach(async () => {
    room = await RoomOfPeers.open();
    publisher = await room.join("ann", { sections: [{ kind: "video", direction: "sendonly" }] });
    await publisher.connect([{ ...CAMERA, trackId: TRACK } as typeof CAMERA], []);
    source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
    source.sendFrame(publisher, true);
    await room.event("trackPublished", ({ track }) => track.id === TRACK);
  });
  afterEach(() => room.close());

  const viewer = async () => {
    const peer = await room.join("ben", { sections: [{ kind: "video", direction: "recvonly" }] });
    const negotiate = async (more: Partial<Negotiate>) =>
      (await room.node.negotiate({ roomId: ROOM, participantId: "ben", sdp: peer.offer(), publish: [], ...more })).sdp;
    return { peer, negotiate };
  };
  const ssrcOf = (sdp: string) => /a=ssrc:(\d+)/.exec(sdp)?.[1];

  test("a section without a track becomes inactive, and returns with another SSRC", async () => {
    const { negotiate } = await viewer();
    const subscribe = [{ mid: "0", trackId: TRACK, stream: "PA_x|camera TR_y" }];
    const first = await negotiate({ idleInactive: true, subscribe });
    const resting = await negotiate({ idleInactive: true, subscribe: [] });
    const again = await negotiate({ idleInactive: true, subscribe });
    const kept = await negotiate({ idleInactive: true, subscribe });
    expect(first).toContain("a=msid:PA_x|camera TR_y\r\n");
    expect(first).toContain("a=sendonly");
    expect(resting).toContain("a=inactive");
    expect(resting).not.toContain("a=ssrc:");
    expect(again).toContain("a=sendonly");
    expect(ssrcOf(again)).not.toBe(ssrcOf(first));
    expect(ssrcOf(kept)).toBe(ssrcOf(again));
  });

  test("a participant can send on one connection and receive on a second one", async () => {
    const sender = await room.join("ben", { sections: [{ kind: "video", direction: "sendonly" }] });
    await sender.connect([{ ...CAMERA, clientTrackId: "bens" }], []);
    const bens = new RtpSource({ ssrc: 9, payloadType: 96, mid: "0" });
    bens.sendFrame(sender, true);
    const { track } = await room.event("trackPublished", ({ identity }) => identity === "ben");
    let arrived = 0;
    const receiver = await RtcPeer.create({
      node: { negotiate: (offer) => room.node.negotiate({ ...offer, connection: "receive" }) },
      roomId: ROOM,
      participantId: "ben",
      sections: [{ kind: "video", direction: "recvonly" }],
      onRtp: () => arrived++,
    });
    await receiver.connect([], [{ mid: "0", trackId: TRACK }]);
    source.sendFrame(publisher, true);
    await room.until(() => (arrived > 0 ? true : undefined), "the video on the second connection");
    // An offer of the first touches nothing of the second.
    await sender.negotiate([{ ...CAMERA, clientTrackId: "bens" }], []);
    const before = arrived;
    source.sendFrame(publisher, true);
    await room.until(() => (arrived > before ? true : undefined), "the video after the other's offer");
    expect((await room.participant("ben"))?.tracks.map(({ id }) => id)).toEqual([track.id]);
    expect((await room.node.rooms())[0]?.participants).toBe(2);
    receiver.close();
  });

  test("a second connection whose certificate is named later waits for it with its handshake", async () => {
    let named = false;
    const receiver = await RtcPeer.create({
      node: {
        negotiate: (offer) =>
          room.node.negotiate({
            ...offer,
            sdp: named ? offer.sdp : offer.sdp.replaceAll(/a=fingerprint:.*\r\n/g, ""),
            connection: "receive",
          }),
      },
      roomId: ROOM,
      participantId: "ben",
      sections: [{ kind: "video", direction: "recvonly" }],
    });
    await room.node.addParticipant({
      roomId: ROOM,
      participantId: "ben",
      identity: "ben",
      permissions: ALL,
    });
    const connected = receiver.connect([], [{ mid: "0", trackId: TRACK }]);
    await room.until(() => (receiver.checksAnswered > 0 ? true : undefined), "a check");
    expect(receiver.outgoing).toBeNull();
    named = true;
    await receiver.negotiate([], [{ mid: "0", trackId: TRACK }]);
    await connected;
    expect(receiver.outgoing).not.toBeNull();
    // The next offer no longer names it, which changes nothing.
    named = false;
    const { remote } = receiver;
    await receiver.negotiate([], [{ mid: "0", trackId: TRACK }]);
    expect(receiver.remote).toEqual(remote);
    receiver.close();
  });

  test("placeholder credentials are replaced by the client's own without an ICE restart; other new credentials restart ICE", async () => {
    let standIn: string | null = "first";
    const receiver = await RtcPeer.create({
      node: {
        negotiate: (offer) => {
          const made = offer.sdp
            .replaceAll(/a=fingerprint:.*\r\n/g, "")
            .replaceAll(/a=ice-ufrag:.*/g, `a=ice-ufrag:${standIn}`);
          return room.node.negotiate({ ...offer, sdp: standIn === null ? offer.sdp : made, connection: "receive" });
        },
      },
      roomId: ROOM,
      participantId: "eve",
      sections: [{ kind: "video", direction: "recvonly" }],
    });
    await room.node.addParticipant({ roomId: ROOM, participantId: "eve", identity: "eve", permissions: ALL });
    const negotiate = async (words: string | null) => {
      standIn = words;
      await receiver.negotiate([], [{ mid: "0", trackId: TRACK }]);
      return receiver.remote;
    };
    const offered = await negotiate("first");
    expect(await negotiate(null)).toEqual(offered);
    const restarted = await negotiate("second");
    expect(restarted).not.toEqual(offered);
    expect(await negotiate(null)).toEqual(restarted);
    receiver.close();
  });
});
