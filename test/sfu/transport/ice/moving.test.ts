import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { RtcPeer } from "../../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../../src/rtc-client/rtp-source.ts";
import { CAMERA, RoomOfPeers } from "../../room-of-peers.ts";

describe("a peer whose address has changed", () => {
  let room: RoomOfPeers;
  let publisher: RtcPeer;
  let viewer: RtcPeer;
  let source: RtpSource;
  let packets: number;

  beforeEach(async () => {
    packets = 0;
    room = await RoomOfPeers.open({ hostname: "0.0.0.0" });
    publisher = await room.join("publisher", { sections: [{ kind: "video", direction: "sendonly" }] });
    await publisher.connect([CAMERA], []);
    source = new RtpSource({ ssrc: 77, payloadType: 96, mid: "0" });
    source.sendFrame(publisher, true);
    const { track } = await room.event("trackPublished");
    viewer = await room.join("viewer", {
      sections: [{ kind: "video", direction: "recvonly" }],
      onRtp: () => {
        packets += 1;
      },
    });
    await viewer.connect([], [{ mid: "0", trackId: track.id }]);
    await flows();
  });
  afterEach(() => room.close());

  /** Frames get from one to the other; the first may still go to the previous address. */
  const flows = async () => {
    const before = packets;
    for (let i = 0; packets < before + 3; i++) {
      if (i > 500) throw new Error("nothing arrives");
      source.sendFrame(publisher, i % 10 === 0);
      await Bun.sleep(10);
    }
  };
  const addressOf = async (name: string) => (await room.participant(name))?.transport.remoteAddress ?? "";
  /** Other credentials, offered as an ICE restart, from another address of this machine. */
  const restart = async (peer: RtcPeer, hostname: string, round: number) => {
    await peer.move(hostname);
    Object.assign(peer.ice, { ufrag: `again${round}`, pwd: `a password of some length ${round}` });
    const publishes = peer === publisher;
    const [trackId] = (await room.participant("viewer"))?.subscriptions.map((one) => one.trackId) ?? [];
    await peer.negotiate(publishes ? [CAMERA] : [], publishes ? [] : [{ mid: "0", trackId: trackId ?? "" }]);
    peer.check();
  };

  test.each(["publisher", "viewer"] as const)(
    "%s: an ICE restart from the new address continues the same tracks",
    async (name) => {
      const peer = name === "publisher" ? publisher : viewer;
      for (const [round, hostname] of ["127.0.0.2", "127.0.0.3", "127.0.0.1"].entries()) {
        const before = peer.remote.ufrag;
        await restart(peer, hostname, round);
        expect(peer.remote.ufrag).not.toBe(before);
        await flows();
        expect(await addressOf(name)).toBe(`${hostname}:${peer.port}`);
      }
      const types = room.events.map(({ type }) => type);
      for (const type of ["participantDisconnected", "participantFailed", "trackUnpublished"] as const)
        expect(types).not.toContain(type);
      expect(types.filter((type) => type === "trackPublished")).toHaveLength(1);
    },
  );

  test("without an ICE restart, a check from the new address is enough, and a stranger's packets have no effect", async () => {
    await publisher.move("127.0.0.2");
    await viewer.move("127.0.0.3");
    await flows();
    expect(await addressOf("publisher")).toBe(`127.0.0.2:${publisher.port}`);
    expect(await addressOf("viewer")).toBe(`127.0.0.3:${viewer.port}`);
    const { foreignAddress = 0 } = await room.refused();
    const stranger = await Bun.udpSocket({ hostname: "127.0.0.4" });
    const media = new Uint8Array(100).fill(128);
    stranger.send(media, publisher.remote.port, publisher.remote.address);
    while (((await room.refused()).foreignAddress ?? 0) <= foreignAddress) await Bun.sleep(5);
    stranger.close();
    await flows();
  });

  test("a third party's address that the peer names gets connectivity checks, but no media", async () => {
    const got: number[] = [];
    const bystander = await Bun.udpSocket({
      hostname: "127.0.0.5",
      socket: { data: (_socket, data) => void got.push(data[0] ?? 0) },
    });
    const { port, address } = viewer.remote;
    const home = await addressOf("viewer");
    for (let i = 0; i < 20; i++) {
      // Signed by the viewer, nominating, from where it is not.
      bystander.send(viewer.checkBytes(), port, address);
      await flows();
    }
    expect(await addressOf("viewer")).toBe(home);
    while (got.length < 20) await Bun.sleep(5);
    expect(got.filter((first) => first > 3)).toEqual([]);
    bystander.close();
  });
});
