import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import type { RtcpPacket } from "../../src/sfu/wire/rtcp/rtcp.ts";
import { writeNack, writePli, writeReceiverReport, writeSenderReport } from "../../src/sfu/wire/rtcp/rtcp-write.ts";
import { compactNtp } from "../../src/sfu/wire/rtp/ntp.ts";
import type { SrtpProfile } from "../../src/sfu/wire/srtp/srtp.ts";
import { CAMERA, ROOM, RoomOfPeers } from "./room-of-peers.ts";

type Received = { sequenceNumber: number; timestamp: number; ssrc: number; payloadType: number; payload: number[] };

describe("forwarding between peers", () => {
  let room: RoomOfPeers;
  let publisher: RtcPeer;
  let source: RtpSource;
  const rtcpToPublisher: RtcpPacket[] = [];

  const publish = async (profile: SrtpProfile = "AEAD_AES_128_GCM", firstSequence = 1_000) => {
    publisher = await room.join("publisher", {
      sections: [{ kind: "video", direction: "sendonly" }],
      profile,
      onRtcp: (packet) => void rtcpToPublisher.push(packet),
    });
    await publisher.connect([CAMERA], []);
    source = new RtpSource({ ssrc: 77, payloadType: 96, mid: "0", firstSequence });
    // No viewer can begin without a keyframe.
    source.sendFrame(publisher, false);
    return (await room.event("trackPublished")).track.id;
  };

  const view = async (identity: string, trackId: string, received: Received[], profile?: SrtpProfile) => {
    const viewer = await room.join(identity, {
      sections: [{ kind: "video", direction: "recvonly" }],
      ...(profile ? { profile } : {}),
      onRtp: ({ sequenceNumber, timestamp, ssrc, payloadType, data, payloadOffset, payloadLength }) =>
        void received.push({
          sequenceNumber,
          timestamp,
          ssrc,
          payloadType,
          payload: [...data.subarray(payloadOffset, payloadOffset + payloadLength)],
        }),
    });
    await viewer.connect([], [{ mid: "0", trackId }]);
    return viewer;
  };

  beforeEach(async () => {
    rtcpToPublisher.length = 0;
    room = await RoomOfPeers.open();
  });
  afterEach(() => room.close());

  test.each(["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"] as const)(
    "%s: packets arrive whole, renumbered, on the viewer's own stream",
    async (profile) => {
      const trackId = await publish(profile);
      const received: Received[] = [];
      await view("viewer", trackId, received, profile);
      source.sendFrame(publisher, true, 3, 1_100);
      source.sendFrame(publisher, false, 2, 900);
      await room.until(() => (received.length === 5 ? true : undefined), "5 packets");
      const numbers = received.map(({ sequenceNumber }) => sequenceNumber);
      expect(numbers).toEqual(Array.from({ length: 5 }, (_, i) => (numbers[0] ?? 0) + i));
      expect(new Set(received.map(({ timestamp }) => timestamp)).size).toBe(2);
      expect(received.map(({ payload }) => payload.length)).toEqual([1_100, 1_100, 1_100, 900, 900]);
      expect(received.every(({ ssrc, payloadType }) => ssrc !== 77 && payloadType === 96)).toBe(true);
      expect((await room.participant("viewer"))?.transport.srtpProfile).toBe(profile);
    },
  );

  test("a viewer starts with a keyframe, and one is asked for", async () => {
    const trackId = await publish();
    const received: Received[] = [];
    await view("viewer", trackId, received);
    await room.until(() => rtcpToPublisher.find((packet) => packet.type === "pli"), "a PLI");
    source.sendFrame(publisher, false);
    source.sendFrame(publisher, true, 2);
    source.sendFrame(publisher, false);
    await room.until(() => (received.length === 3 ? true : undefined), "the keyframe and what follows");
    expect(received[0]?.payload[4]).toBe(0x10);
  });

  test("a hundred requests for a keyframe become one every half second", async () => {
    const trackId = await publish();
    const received: Received[] = [];
    const viewer = await view("viewer", trackId, received);
    source.sendFrame(publisher, true);
    const first = await room.until(() => received[0], "a packet");
    rtcpToPublisher.length = 0;
    const started = performance.now();
    const out = new Uint8Array(64);
    for (let i = 0; i < 100; i++) {
      viewer.sendRtcp(out, writePli(out, 0, 1, first.ssrc));
      await Bun.sleep(5);
    }
    await Bun.sleep(50);
    const allowed = Math.ceil((performance.now() - started) / 500) + 1;
    const asked = rtcpToPublisher.filter((packet) => packet.type === "pli").length;
    expect(asked).toBeGreaterThan(0);
    expect(asked).toBeLessThanOrEqual(allowed);
  });

  test("a packet that a viewer misses is sent again over RTX, with the same payload", async () => {
    const trackId = await publish();
    const received: Received[] = [];
    const viewer = await view("viewer", trackId, received);
    source.sendFrame(publisher, true, 4, 500);
    await room.until(() => (received.length === 4 ? true : undefined), "4 packets");
    const lost = received[2];
    const out = new Uint8Array(64);
    viewer.sendRtcp(out, writeNack(out, 0, 1, lost?.ssrc ?? 0, [lost?.sequenceNumber ?? 0]));
    const repeated = await room.until(() => received[4], "the repetition");
    expect(repeated.payloadType).toBe(97);
    expect(repeated.ssrc).not.toBe(lost?.ssrc);
    expect((repeated.payload[0] ?? 0) * 256 + (repeated.payload[1] ?? 0)).toBe(lost?.sequenceNumber ?? -1);
    expect(repeated.payload.slice(2)).toEqual(lost?.payload ?? []);
  });

  test("the server requests a missing packet from the publisher when it is not merely late", async () => {
    await publish();
    source.build(new Uint8Array(10), false);
    source.sendFrame(publisher, false);
    const nack = await room.until(() => rtcpToPublisher.find((packet) => packet.type === "nack"), "a NACK");
    expect(nack).toMatchObject({ mediaSsrc: 77, lost: [1_001] });
    source.sequenceNumber = 1_001;
    source.sendFrame(publisher, false);
    source.sequenceNumber = 1_003;
    await Bun.sleep(100);
    const asked = rtcpToPublisher.filter((packet) => packet.type === "nack").length;
    await Bun.sleep(300);
    expect(rtcpToPublisher.filter((packet) => packet.type === "nack").length).toBe(asked);
  });

  test("a probing packet of the publisher is forwarded if it repeats a lost packet, and not if that had arrived", async () => {
    const trackId = await publish();
    const received: Received[] = [];
    await view("viewer", trackId, received);
    source.sendFrame(publisher, true);
    await room.until(() => received[0], "a packet");
    // Browsers probe by repeating recent packets over RTX.
    const repeat = new RtpSource({ ssrc: 78, payloadType: 97, mid: "0" });
    const probe = (sequenceNumber: number, payload: Uint8Array) => {
      repeat.timestamp = source.timestamp;
      repeat.send(publisher, new Uint8Array([sequenceNumber >> 8, sequenceNumber & 0xff, ...payload]), true);
    };
    const { sequenceNumber } = source;
    const lost = new Uint8Array([0x90, 0x80, 0x80, 0x09, 0x11, 7, 7, 7]);
    source.build(lost, true);
    probe(sequenceNumber, lost);
    probe(sequenceNumber, lost);
    probe(sequenceNumber - 1, new Uint8Array(200));
    source.sendFrame(publisher, false);
    await room.until(() => (received.length === 3 ? true : undefined), "the lost packet and the next");
    await Bun.sleep(50);
    expect(received).toHaveLength(3);
    expect(received[1]?.payload.slice(-3)).toEqual([7, 7, 7]);
    expect(received.map((r) => r.sequenceNumber - (received[0]?.sequenceNumber ?? 0))).toEqual([0, 1, 2]);
    expect(rtcpToPublisher.filter((packet) => packet.type === "nack")).toEqual([]);
  });

  test("the publisher gets transport-wide feedback alone in its packets, and reports", async () => {
    await publish();
    for (let i = 0; i < 10; i++) {
      source.sendFrame(publisher, false);
      await Bun.sleep(10);
    }
    await room.until(() => rtcpToPublisher.find((packet) => packet.type === "transport-feedback"), "feedback");
    const report = await room.until(() => rtcpToPublisher.find((packet) => packet.type === "rr"), "a report");
    expect(report).toMatchObject({ reports: [expect.objectContaining({ ssrc: 77, cumulativeLost: 0 })] });
  });

  test("sender reports are rewritten to the SSRC and RTP timestamps of the viewer's stream", async () => {
    const trackId = await publish();
    const received: Received[] = [];
    const reports: RtcpPacket[] = [];
    const viewer = await room.join("viewer", {
      sections: [{ kind: "video", direction: "recvonly" }],
      onRtp: ({ sequenceNumber, timestamp, ssrc, payloadType }) =>
        void received.push({ sequenceNumber, timestamp, ssrc, payloadType, payload: [] }),
      onRtcp: (packet) => void reports.push(packet),
    });
    await viewer.connect([], [{ mid: "0", trackId }]);
    source.sendFrame(publisher, true);
    await room.until(() => received[0], "a packet");
    const out = new Uint8Array(128);
    const report = {
      ssrc: 77,
      ntpSeconds: 3_900_000_000,
      ntpFraction: 0,
      rtpTimestamp: source.timestamp,
      packetCount: 1,
      octetCount: 1,
    };
    publisher.sendRtcp(out, writeSenderReport(out, 0, report));
    const derived = await room.until(() => reports.find((packet) => packet.type === "sr"), "a report");
    if (derived.type !== "sr") throw new Error("no report");
    expect(derived.ssrc).toBe(received[0]?.ssrc ?? 0);
    // A report made from one just received: its clock stands at most a second after the packet's.
    expect((derived.rtpTimestamp - (received[0]?.timestamp ?? 0)) >>> 0).toBeLessThan(90_000 * 2);
  });

  test("a viewer's round-trip time does not depend on the delay of the publisher's reports", async () => {
    const trackId = await publish();
    const received: Received[] = [];
    const viewer = await room.join("viewer", {
      sections: [{ kind: "video", direction: "recvonly" }],
      onRtp: ({ sequenceNumber, timestamp, ssrc, payloadType }) =>
        void received.push({ sequenceNumber, timestamp, ssrc, payloadType, payload: [] }),
      onRtcp: (packet) => {
        if (packet.type !== "sr") return;
        const lastSenderReport = compactNtp(packet.ntpSeconds, packet.ntpFraction);
        const block = {
          fractionLost: 0,
          cumulativeLost: 0,
          highestSequence: 1,
          jitter: 0,
          delaySinceLastSenderReport: 0,
        };
        const out = new Uint8Array(128);
        viewer.sendRtcp(out, writeReceiverReport(out, 0, 1, [{ ssrc: packet.ssrc, lastSenderReport, ...block }]));
      },
    });
    await viewer.connect([], [{ mid: "0", trackId }]);
    source.sendFrame(publisher, true);
    await room.until(() => received[0], "a packet");
    const of = { ssrc: 77, ntpFraction: 0, packetCount: 1, octetCount: 1 };
    const out = new Uint8Array(128);
    // The second one took nine seconds longer than the first.
    publisher.sendRtcp(out, writeSenderReport(out, 0, { ...of, ntpSeconds: 3_900_000_009, rtpTimestamp: 810_000 }));
    publisher.sendRtcp(out, writeSenderReport(out, 0, { ...of, ntpSeconds: 3_900_000_000, rtpTimestamp: 0 }));
    const rttMs = async () => (await room.participant("viewer"))?.transport.rttMs ?? null;
    while ((await rttMs()) === null) await Bun.sleep(10);
    expect(await rttMs()).toBeLessThan(5_000);
  });

  test("a replayed or altered packet is refused, counted and not forwarded", async () => {
    const trackId = await publish();
    const received: Received[] = [];
    await view("viewer", trackId, received);
    source.sendFrame(publisher, true);
    await room.until(() => received[0], "a packet");
    const { packet, headerLength, length } = source.build(new Uint8Array(100), true);
    const end = publisher.outgoing?.protectRtp(packet, headerLength, length) ?? 0;
    const wire = packet.slice(0, end);
    const altered = wire.slice();
    altered[40] = (altered[40] ?? 0) ^ 1;
    publisher.sendRaw(altered);
    publisher.sendRaw(wire.slice());
    publisher.sendRaw(wire.slice());
    publisher.sendRaw(wire.slice());
    await room.until(() => (received.length === 2 ? true : undefined), "the true packet");
    await Bun.sleep(50);
    expect(received).toHaveLength(2);
    expect(await room.refused()).toMatchObject({ replayed: 2, unauthentic: 1 });
  });

  test("packets lost where the sequence numbers wrap are recovered like others", async () => {
    const trackId = await publish("AEAD_AES_128_GCM", 65_400);
    const received: Received[] = [];
    await view("viewer", trackId, received);
    source.sendFrame(publisher, true);
    await room.until(() => received[0], "a packet");
    // 300 packets are lost, among them the wrap.
    source.sequenceNumber = 164;
    source.sendFrame(publisher, true, 3);
    await room.until(() => (received.length === 4 ? true : undefined), "the packets after the wrap");
    source.sendFrame(publisher, false, 2);
    await room.until(() => (received.length === 6 ? true : undefined), "those that follow");
  });

  test("a publisher whose address changes keeps its tracks, and a stranger at another address gets no packets", async () => {
    const trackId = await publish();
    const received: Received[] = [];
    const viewer = await view("viewer", trackId, received);
    source.sendFrame(publisher, true);
    await room.until(() => received[0], "a packet");
    await publisher.move();
    await room.until(() => (publisher.checksAnswered >= 2 ? true : undefined), "the check from the new address");
    source.sendFrame(publisher, false, 2);
    await room.until(() => (received.length === 3 ? true : undefined), "packets from the new address");
    await viewer.move();
    await room.until(() => (viewer.checksAnswered >= 2 ? true : undefined), "the viewer's check");
    source.sendFrame(publisher, false, 2);
    await room.until(() => (received.length === 5 ? true : undefined), "packets to the new address");
    expect(room.events.filter((event) => event.type === "participantDisconnected")).toEqual([]);
  });

  test("a track that ends leaves its section to the next, with sequence numbers that continue", async () => {
    const trackId = await publish();
    const received: Received[] = [];
    await view("viewer", trackId, received);
    source.sendFrame(publisher, true, 2);
    await room.until(() => (received.length === 2 ? true : undefined), "two packets");
    await room.node.unpublish({ roomId: ROOM, participantId: "publisher", trackId });
    await room.event("trackUnpublished", (event) => event.trackId === trackId);
    const [again] = await publisher.negotiate([{ ...CAMERA, clientTrackId: "again" }], []);
    source.sendFrame(publisher, false);
    await room.event("trackPublished", (event) => event.track.id === again?.trackId);
    await room.node.updateSubscriptions({
      roomId: ROOM,
      participantId: "viewer",
      tracks: [{ trackId: again?.trackId ?? "", mid: "0" }],
    });
    source.sendFrame(publisher, true);
    await room.until(() => (received.length === 3 ? true : undefined), "the new track's packet");
    expect(received[2]?.ssrc).toBe(received[0]?.ssrc ?? 0);
    expect(received[2]?.sequenceNumber).toBe((received[1]?.sequenceNumber ?? 0) + 1);
  });
});
