import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { CAMERA, ROOM, RoomOfPeers } from "../room-of-peers.ts";
import { Stage } from "./stage.ts";

type Seen = { sequenceNumber: number; timestamp: number; keyframe: boolean };

test("a subscriber that waited for a track begins with its first keyframe, which other subscribers do not get twice", () => {
  const stage = new Stage("VP8");
  const frame = (sequenceNumber: number, keyframe: boolean) =>
    stage.receive(
      sequenceNumber,
      sequenceNumber * 3_000,
      Uint8Array.of(0x10, keyframe ? 0x10 : 0x11, 0, 0, 9),
      sequenceNumber * 1_000,
    );
  frame(1, true);
  const [waiting, watching] = [stage.watch(10), stage.watch(10)];
  waiting.subscription.setLayer(null, "requested", 10);
  frame(2, false);
  waiting.seen.length = watching.seen.length = 0;
  // A paused subscriber keeps waiting; one that waits for the source does not.
  frame(3, true);
  expect(waiting.seen).toEqual([]);
  waiting.subscription.setLayer(null, "source", 10);
  for (const [sequenceNumber, keyframe] of [[4, false] as const, [5, true] as const, [6, false] as const])
    frame(sequenceNumber, keyframe);
  expect(waiting.seen.map(({ payload }) => payload[1])).toEqual([0x10, 0x11]);
  expect(watching.seen.map(({ payload }) => payload[1])).toEqual([0x10, 0x11, 0x10, 0x11]);
});

describe("a subscriber that joins while the video runs", () => {
  let room: RoomOfPeers;
  let publisher: RtcPeer;
  let source: RtpSource;
  let trackId: string;

  beforeEach(async () => {
    room = await RoomOfPeers.open();
    publisher = await room.join("publisher", { sections: [{ kind: "video", direction: "sendonly" }] });
    await publisher.connect([CAMERA], []);
    source = new RtpSource({ ssrc: 77, payloadType: 96, mid: "0", firstSequence: 65_530 });
    source.sendFrame(publisher, false);
    trackId = (await room.event("trackPublished")).track.id;
  });
  afterEach(() => room.close());

  const view = async (identity: string) => {
    const seen: Seen[] = [];
    const viewer = await room.join(identity, {
      sections: [{ kind: "video", direction: "recvonly" }],
      onRtp: ({ sequenceNumber, timestamp, data, payloadOffset }) =>
        void seen.push({ sequenceNumber, timestamp, keyframe: data[payloadOffset + 4] === 0x10 }),
    });
    await viewer.connect([], [{ mid: "0", trackId }]);
    return seen;
  };

  /** Sends a frame, and waits until the server has it. */
  const frame = async (keyframe: boolean, packets: number) => {
    const { packetsIn } = await room.node.load();
    source.sendFrame(publisher, keyframe, packets);
    while ((await room.node.load()).packetsIn < packetsIn + packets) await Bun.sleep(2);
  };

  test("starts with the last keyframe and gets all later packets in order, across the wrap", async () => {
    const first = await view("first");
    for (let frame = 0; frame < 5; frame++) source.sendFrame(publisher, frame === 0, 3);
    await room.until(() => (first.length === 15 ? true : undefined), "the frames");
    const second = await view("second");
    await room.until(() => (second.length === 15 ? true : undefined), "the same frames");
    expect(second.map(({ keyframe }) => keyframe)).toEqual(first.map(({ keyframe }) => keyframe));
    const steps = (seen: Seen[], field: "sequenceNumber" | "timestamp") =>
      seen.map((packet) => packet[field] - (seen[0]?.[field] ?? 0));
    expect(steps(second, "sequenceNumber")).toEqual(Array.from({ length: 15 }, (_, i) => i));
    expect(steps(second, "timestamp")).toEqual(steps(first, "timestamp"));
    source.sendFrame(publisher, false, 2);
    await room.until(() => (second.length === 17 ? true : undefined), "what follows");
    expect(steps(second, "sequenceNumber").at(-1)).toBe(16);
  });

  test("continues without a keyframe after the publisher was silent, and is notified of both", async () => {
    const seen = await view("viewer");
    await frame(true, 1);
    await room.until(() => seen[0], "a frame");
    await room.event("subscriptionChanged", ({ paused, reason }) => paused && reason === "source");
    await frame(false, 2);
    await room.until(() => (seen.length === 3 ? true : undefined), "the next frame");
    await room.until(() => {
      const last = room.events.findLast((event) => event.type === "subscriptionChanged");
      return last?.type === "subscriptionChanged" && !last.paused && last.layer === "high" ? true : undefined;
    }, "the end of the silence");
  });

  test("gets nothing that was sent while the camera was muted", async () => {
    const ref = { roomId: ROOM, participantId: "publisher", trackId };
    const before = await view("before");
    source.sendFrame(publisher, true);
    await room.until(() => before[0], "a frame");
    await room.node.setTrackMuted({ ...ref, muted: true });
    await frame(true, 4);
    await frame(false, 4);
    await room.node.setTrackMuted({ ...ref, muted: false });
    const seen = await view("after");
    source.sendFrame(publisher, true, 2);
    await room.until(() => (seen.length >= 2 ? true : undefined), "a keyframe of its own");
    await Bun.sleep(50);
    expect(seen).toHaveLength(2);
  });
});
