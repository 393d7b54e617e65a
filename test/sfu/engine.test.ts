import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { randomBytes } from "node:crypto";
import { seededRandom } from "../../src/kernel/net/impairment.ts";
import type { NodeLoad } from "../../src/protocol/media/node-load.ts";
import { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { Engine } from "../../src/sfu/engine.ts";
import { type RtpView, rtpHeaderLength } from "../../src/sfu/wire/rtp/rtp.ts";
import type { WorkerCall } from "../../src/sfu/worker-protocol.ts";
import { ALL, CAMERA, ROOM, RoomOfPeers, refusal } from "./room-of-peers.ts";

describe("the engine", () => {
  let room: RoomOfPeers;
  beforeEach(async () => {
    room = await RoomOfPeers.open();
  });
  afterEach(() => room.close());

  test("calls with an unknown room, participant or track fail with that reason", async () => {
    const ref = { roomId: ROOM, participantId: "nobody" };
    expect(await refusal(room.node.negotiate({ roomId: "nowhere", participantId: "x", sdp: "" }))).toBe(
      "ROOM_NOT_FOUND",
    );
    expect(await refusal(room.node.negotiate({ ...ref, sdp: "" }))).toBe("PARTICIPANT_NOT_FOUND");
    await room.node.addParticipant({ roomId: ROOM, participantId: "x", identity: "x", permissions: ALL });
    expect(await refusal(room.node.negotiate({ roomId: ROOM, participantId: "x", sdp: "garbage" }))).toBe(
      "NEGOTIATION_FAILED",
    );
    expect(await refusal(room.node.unpublish({ roomId: ROOM, participantId: "x", trackId: "t" }))).toBe(
      "TRACK_NOT_FOUND",
    );
    expect(
      await refusal(room.node.setTrackMuted({ roomId: ROOM, participantId: "x", trackId: "t", muted: true })),
    ).toBe("TRACK_NOT_FOUND");
    expect(await refusal(room.node.sendData({ roomId: ROOM, from: null, payload: "x".repeat(65_537) }))).toBe(
      "PAYLOAD_TOO_LARGE",
    );
    expect(await room.node.room({ roomId: "nowhere" })).toBeNull();
    await room.node.removeParticipant(ref);
    await room.node.closeRoom({ roomId: "nowhere" });
  });

  test("only the loudest voices are forwarded, and a louder one replaces a quieter one", async () => {
    // The room lets two be heard.
    const speakers = await Promise.all(["a", "b", "c"].map((identity, i) => room.speaker(identity, 10 + i)));
    const heard = new Set<number>();
    const listener = await room.join("listener", {
      sections: Array.from({ length: 3 }, () => ({ kind: "audio" as const, direction: "recvonly" as const })),
      onRtp: (view: RtpView) => void heard.add(view.ssrc),
    });
    for (const { peer, source } of speakers) source.sendAudio(peer);
    await room.until(
      () => (room.events.filter((event) => event.type === "trackPublished").length === 3 ? true : undefined),
      "three tracks",
    );
    const tracks = room.events.flatMap((event) => (event.type === "trackPublished" ? [event.track.id] : []));
    await listener.connect(
      [],
      tracks.map((trackId, i) => ({ mid: String(i), trackId })),
    );
    const talk = async (levels: number[], rounds: number) => {
      for (let i = 0; i < rounds; i++) {
        for (const [k, { peer, source }] of speakers.entries()) {
          source.options.audioLevel = levels[k] ?? 127;
          source.sendAudio(peer);
        }
        await Bun.sleep(10);
      }
    };
    await talk([20, 20, 90], 80);
    heard.clear();
    await talk([20, 20, 90], 20);
    expect(heard.size).toBe(2);
    await talk([20, 90, 20], 80);
    const loud = (
      await room.event(
        "speakersChanged",
        (event) => event.speakers.length === 2 && event.speakers.some((s) => s.identity === "c"),
      )
    ).speakers;
    expect(loud.map(({ identity }) => identity).sort()).toEqual(["a", "c"]);
    heard.clear();
    await talk([20, 90, 20], 20);
    expect(heard.size).toBe(2);
  }, 15_000);

  test("a WHIP offer publishes its tracks, and a WHEP offer gets the present and later tracks", async () => {
    const whip = await room.join("whip", {
      sections: [
        { kind: "audio", direction: "sendonly" },
        { kind: "video", direction: "sendonly" },
      ],
    });
    await whip.connect(undefined, undefined);
    const video = new RtpSource({ ssrc: 21, payloadType: 96, mid: "1" });
    const audio = new RtpSource({ ssrc: 20, payloadType: 111, mid: "0" });
    video.sendFrame(whip, true);
    await room.event("trackPublished", (event) => event.track.kind === "video" && event.track.source === "camera");
    const kinds = new Set<number>();
    const whep = await room.join("whep", {
      sections: [
        { kind: "audio", direction: "recvonly" },
        { kind: "video", direction: "recvonly" },
      ],
      onRtp: ({ payloadType }) => void kinds.add(payloadType),
    });
    await whep.connect(undefined, undefined);
    video.sendFrame(whip, true);
    audio.sendAudio(whip);
    await room.event("trackPublished", (event) => event.track.kind === "audio" && event.track.source === "microphone");
    await Bun.sleep(150);
    audio.sendAudio(whip);
    await room.until(() => (kinds.size === 2 ? true : undefined), "audio and video");
    const snapshot = await room.participant("whep");
    expect(snapshot?.subscriptions.map(({ mid }) => mid).sort()).toEqual(["0", "1"]);
  });

  test("a new peer connection of the same participant starts from nothing and ends the old one", async () => {
    const first = await room.join("ann", { sections: [{ kind: "video", direction: "sendonly" }] });
    await first.connect([CAMERA], []);
    new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" }).sendFrame(first, true);
    const { track } = await room.event("trackPublished");
    const second = await RtcPeer.create({
      node: room.node,
      roomId: ROOM,
      participantId: "ann",
      sections: [{ kind: "video", direction: "sendonly" }],
    });
    await second.connect([CAMERA], []);
    await room.event("trackUnpublished", (event) => event.trackId === track.id);
    const answered = first.checksAnswered;
    first.check();
    await Bun.sleep(50);
    expect(first.checksAnswered).toBe(answered);
    expect((await room.refused()).unknownUser).toBeGreaterThan(0);
    expect((await room.participant("ann"))?.transport.bytesIn).toBeGreaterThan(0);
    second.close();
  });

  test("a member that sends protected nonsense does not affect the others", async () => {
    const { peer: vandal } = await room.speaker("vandal", 7);
    const random = seededRandom(11);
    const bytes = (length: number) => Uint8Array.from({ length }, () => Math.floor(random() * 256));
    for (let i = 0; i < 4_000; i++) {
      const length = 12 + Math.floor(random() * 300);
      const packet = new Uint8Array(length + 40);
      packet.set(bytes(length));
      if (i % 2 === 0) {
        // RTP of a known or unknown stream, with any header extension.
        packet.set([random() < 0.5 ? 0x80 : 0x90, random() < 0.7 ? 111 : 96, i >> 8, i & 0xff]);
        packet.set([0, 0, 0, random() < 0.5 ? 7 : Math.floor(random() * 256)], 8);
        if (packet[0] === 0x90) packet.set([0xbe, 0xde, 0, Math.floor(random() * 8)], 12);
        const headerLength = rtpHeaderLength(packet, length);
        if (headerLength > 0) vandal.sendRtp(packet, headerLength, length);
      } else {
        packet.set([
          0x80 | Math.floor(random() * 32),
          200 + Math.floor(random() * 8),
          0,
          Math.floor(random() * (length / 4)),
        ]);
        vandal.sendRtcp(packet, length & ~3);
      }
      if (i % 200 === 0) await Bun.sleep(2);
    }
    for (let i = 0; i < 200; i++) vandal.sendRaw(Buffer.concat([Buffer.from([20 + (i % 44)]), bytes(i)]));
    const { peer, source } = await room.speaker("speaker", 8);
    source.sendAudio(peer);
    const { track } = await room.event("trackPublished", (event) => event.identity === "speaker");
    const listener = await room.join("listener", { sections: [{ kind: "audio", direction: "recvonly" }] });
    await listener.connect([], [{ mid: "0", trackId: track.id }]);
    source.sendAudio(peer);
    await room.until(() => listener.packetsIn || undefined, "sound");
  }, 15_000);

  test("an engine that gets more packets than it can handle drops media, not calls", async () => {
    const engine = await Engine.start(
      { hostname: "127.0.0.1", port: 0, announce: ["127.0.0.1"], tcp: false, srtpProfiles: ["AEAD_AES_128_GCM"] },
      { emit: () => {}, onFault: () => {} },
    );
    const refused = () =>
      (engine.call({ type: "call", id: 1, method: "load", request: undefined }) as NodeLoad).refused;
    const media = Buffer.alloc(100, 128);
    const check = Buffer.alloc(20);
    // One turn of the loop that does not end: the socket is never empty.
    while (!refused().overloaded) for (let i = 0; i < 1_000; i++) engine.receive(media, 1, "192.0.2.1");
    const before = refused();
    expect(before.overloaded).toBeGreaterThan(0);
    engine.receive(check, 1, "192.0.2.1");
    expect(refused().unreadable).toBe((before.unreadable ?? 0) + 1);
    await new Promise((resolve) => setImmediate(resolve));
    engine.receive(media, 1, "192.0.2.1");
    expect(refused()).toMatchObject({
      overloaded: before.overloaded,
      foreignAddress: (before.foreignAddress ?? 0) + 1,
    });
    engine.close();
  });

  test("packets from unknown addresses are refused and counted, and get no response", async () => {
    const stranger = await room.join("stranger", { sections: [{ kind: "video", direction: "sendonly" }] });
    await stranger.negotiate([CAMERA], []);
    let answers = 0;
    stranger.receive = () => void answers++;
    stranger.sendRaw(stranger.checkBytes("wrong password of some length"));
    stranger.sendRaw(stranger.checkBytes(undefined, "unknown"));
    for (const first of [0, 22, 128, 200]) stranger.sendRaw(Buffer.concat([Buffer.from([first]), randomBytes(300)]));
    await Bun.sleep(100);
    expect(answers).toBe(0);
    expect(await room.refused()).toMatchObject({ forgedCheck: 1, unknownUser: 1, foreignAddress: 3, unreadable: 1 });
  });

  test("no state remains after fifty joins and leaves", async () => {
    for (let i = 0; i < 50; i++) {
      const peer = await room.join(`p${i}`, { sections: [{ kind: "video", direction: "sendonly" }] });
      await peer.negotiate([CAMERA], []);
      await room.node.removeParticipant({ roomId: ROOM, participantId: `p${i}` });
      peer.close();
    }
    expect(await room.node.room({ roomId: ROOM })).toEqual({ roomId: ROOM, participants: [] });
    expect(await room.node.rooms()).toEqual([{ roomId: ROOM, participants: 0 }]);
    await room.node.closeRoom({ roomId: ROOM });
    expect(await room.node.rooms()).toEqual([]);
  });
});

test("an engine wakes by itself only while a room has a participant", async () => {
  let beats = 0;
  const engine = await Engine.start(
    { hostname: "127.0.0.1", port: 0, announce: ["127.0.0.1"], tcp: false, srtpProfiles: ["AEAD_AES_128_GCM"] },
    {
      emit() {},
      onFault(error) {
        throw error;
      },
      beat: () => void beats++,
    },
  );
  const call = (method: string, request: object) => engine.call({ type: "call", id: 0, method, request } as WorkerCall);
  const of = { roomId: ROOM, participantId: "ada" };
  call("openRoom", { roomId: ROOM });
  await Bun.sleep(150);
  expect(beats).toBe(0);
  call("addParticipant", { ...of, identity: "ada", permissions: ALL });
  while (beats < 2) await Bun.sleep(5);
  call("removeParticipant", of);
  beats = 0;
  await Bun.sleep(150);
  expect(beats).toBe(0);
  engine.close();
});
