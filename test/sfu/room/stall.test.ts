import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { type ExpectedMedia, StallWatch } from "../../../src/sfu/room/health.ts";
import { CAMERA, RoomOfPeers } from "../room-of-peers.ts";

/** Second after second; `media` says whether something came in it. */
function watch(
  seconds: number,
  due: ExpectedMedia["due"],
  media: (second: number) => boolean,
  stall = new StallWatch(),
) {
  const changes: string[] = [];
  let mediaAtMs = 100_000;
  for (let second = 1; second <= seconds; second++) {
    const nowMs = 100_000 + second * 1_000;
    if (media(second)) mediaAtMs = nowMs - 10;
    if (!stall.isDue(nowMs)) continue;
    const change = stall.update({ due, mediaAtMs, checkedAtMs: nowMs - 2_000 }, nowMs);
    if (change) changes.push(`${change} at ${second}`);
  }
  return changes;
}

describe("a connection that is checked", () => {
  test("stalls when no media arrives for 5 s although it is due, and flows when media arrives again", () => {
    expect(watch(20, "media", (second) => second <= 3 || second >= 15)).toEqual(["stalled at 8", "flows at 15"]);
  });

  test("does not stall while nothing is due", () => {
    expect(watch(60, "nothing", () => false)).toEqual([]);
  });

  test("does not stall if it reports on audio only every seven seconds", () => {
    expect(watch(60, "audio reports", (second) => second % 7 === 0)).toEqual([]);
    expect(watch(60, "audio reports", (second) => second < 5)).toEqual(["stalled at 14"]);
  });

  test("does not stall when it has always reported rarely", () => {
    expect(watch(60, "media", (second) => second % 5 === 0)).toEqual([]);
    expect(watch(60, "media", (second) => second % 5 === 0 && second <= 20)).toEqual(["stalled at 33"]);
  });

  test("has lost its network, and is not stalled, when its packets and checks end together", () => {
    const stall = new StallWatch();
    const changes = Array.from({ length: 30 }, (_, second) => {
      const nowMs = 101_000 + second * 1_000;
      return stall.isDue(nowMs)
        ? stall.update({ due: "media", mediaAtMs: 100_500, checkedAtMs: 100_400 }, nowMs)
        : null;
    });
    expect(changes.filter(Boolean)).toEqual([]);
  });

  test("has ended, and is not stalled, when it has no checks either", () => {
    const stall = new StallWatch();
    const silent = { due: "media", mediaAtMs: 0, checkedAtMs: 0 } as const;
    for (let nowMs = 9_000; nowMs < 60_000; nowMs += 1_000) expect(stall.update(silent, nowMs)).toBeNull();
  });
});

describe("stalls in a room", () => {
  let room: RoomOfPeers;
  let publisher: RtcPeer;
  let viewer: RtcPeer;
  const source = new RtpSource({ ssrc: 77, payloadType: 96, mid: "0" });

  beforeEach(async () => {
    room = await RoomOfPeers.open();
    publisher = await room.join("publisher", { sections: [{ kind: "video", direction: "sendonly" }] });
    await publisher.connect([CAMERA], []);
    source.sendFrame(publisher, true);
    const trackId = (await room.event("trackPublished")).track.id;
    let seen = 0;
    viewer = await room.join("viewer", {
      sections: [{ kind: "video", direction: "recvonly" }],
      onRtp: () => void seen++,
    });
    await viewer.connect([], [{ mid: "0", trackId }]);
    await room.until(() => {
      source.sendFrame(publisher, true);
      return seen > 0 ? true : undefined;
    }, "a video frame");
  });
  afterEach(() => room.close());

  /** Lets seconds pass, with checks and without packets. */
  const pass = async (seconds: number) => {
    for (let i = 0; i < seconds; i++) {
      room.aheadMs += 1_000;
      const { packetsIn } = await room.node.load();
      for (const peer of [publisher, viewer]) peer.check();
      await room.until(() => true, "a tick");
      while ((await room.node.load()).packetsIn < packetsIn + 2) await Bun.sleep(2);
      await Bun.sleep(25);
    }
  };

  test("a publisher without packets is stalled with quality lost, until its next packet", async () => {
    await pass(8);
    const stalled = await room.event("mediaStalled", ({ identity }) => identity === "publisher");
    expect(stalled).toMatchObject({ participantId: "publisher" });
    await room.event("qualityChanged", ({ identity, quality }) => identity === "publisher" && quality === "lost");
    expect(room.events.some(({ type }) => type === "participantDisconnected")).toBe(false);
    source.sendFrame(publisher, false);
    await pass(2);
    await room.event("mediaFlows", ({ identity }) => identity === "publisher");
    await room.event("qualityChanged", ({ identity, quality }) => identity === "publisher" && quality !== "lost");
  });

  test("a muted camera is no stall", async () => {
    const trackId = (await room.event("trackPublished")).track.id;
    await room.node.setTrackMuted({ roomId: "room", participantId: "publisher", trackId, muted: true });
    await pass(10);
    expect(room.events.filter(({ type }) => type === "mediaStalled")).toEqual([]);
  });

  test("a viewer that receives video and reports nothing is stalled", async () => {
    for (let i = 0; i < 8; i++) {
      source.sendFrame(publisher, false);
      await pass(1);
    }
    await room.event("mediaStalled", ({ identity }) => identity === "viewer");
    expect(room.events.some((event) => event.type === "mediaStalled" && event.identity === "publisher")).toBe(false);
    viewer.sendRemb(1_000_000);
    await pass(2);
    await room.event("mediaFlows", ({ identity }) => identity === "viewer");
  });

  test("packets keep a client without checks connected; it disconnects after 15 s of silence and fails after 30 s", async () => {
    publisher.stopChecks();
    const of = (type: string) =>
      room.events.filter((event) => event.type === type && "identity" in event && event.identity === "publisher");
    for (let i = 0; i < 5; i++) {
      room.aheadMs += 10_000;
      const { packetsIn } = await room.node.load();
      source.sendFrame(publisher, false);
      while ((await room.node.load()).packetsIn <= packetsIn) await Bun.sleep(2);
      await Bun.sleep(150);
    }
    expect(of("participantDisconnected")).toEqual([]);
    room.aheadMs += 15_000;
    await room.event("participantDisconnected", ({ identity }) => identity === "publisher");
    expect(of("participantFailed")).toEqual([]);
    source.sendFrame(publisher, false);
    await room.event("participantReconnected", ({ identity }) => identity === "publisher");
    room.aheadMs += 29_000;
    await Bun.sleep(250);
    expect(of("participantFailed")).toEqual([]);
    room.aheadMs += 1_000;
    expect(await room.event("participantFailed", ({ identity }) => identity === "publisher")).toMatchObject({
      reason: "consent_timeout",
    });
  });
});
