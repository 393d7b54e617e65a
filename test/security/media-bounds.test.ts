import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { KeyframeBudgets } from "../../src/sfu/room/downlink.ts";
import { fakeClock } from "../harness/clock.ts";
import { CAMERA, ROOM, RoomOfPeers, refusal } from "../sfu/room-of-peers.ts";

const TRANSPORT = "a=ice-ufrag:abcd\r\na=ice-pwd:0123456789012345678901\r\na=fingerprint:sha-256 AA:BB\r\n";

function offerOf(mids: string[]): string {
  const section = (mid: string) =>
    `m=video 9 UDP/TLS/RTP/SAVPF 96\r\na=mid:${mid}\r\na=recvonly\r\na=rtpmap:96 VP8/90000\r\n`;
  const bundle = `a=group:BUNDLE ${mids.join(" ")}\r\n`;
  return `v=0\r\no=- 1 2 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\n${bundle}${TRANSPORT}${mids.map(section).join("")}`;
}

describe("the memory and work that one participant can cause in the media worker", () => {
  let room: RoomOfPeers;
  beforeEach(async () => {
    room = await RoomOfPeers.open();
  });
  afterEach(() => room.close());

  test("sixty offers of 512 new receiving sections each use no more memory than one offer", async () => {
    await room.join("hoarder", { sections: [] });
    const negotiate = (round: number) => {
      const mids = Array.from({ length: 512 }, (_, i) => `${round}-${i}`);
      const request = { roomId: ROOM, participantId: "hoarder", sdp: offerOf(mids), publish: [], subscribe: [] };
      return room.node.negotiate(request);
    };
    await negotiate(0);
    Bun.gc(true);
    const before = process.memoryUsage().arrayBuffers;
    for (let round = 1; round <= 60; round += 1) await negotiate(round);
    Bun.gc(true);
    const grownBytes = process.memoryUsage().arrayBuffers - before;
    // History of packets is made for a track, not for a section that never has one.
    expect(grownBytes).toBeLessThan(8 * 1024 * 1024);
  });

  test("a section that a later offer does not contain is removed, and the others are kept", async () => {
    const viewer = await room.join("viewer", { sections: [] });
    const negotiate = (mids: string[]) =>
      room.node.negotiate({ roomId: ROOM, participantId: "viewer", sdp: offerOf(mids), publish: [], subscribe: [] });
    const ssrcs = (sdp: string) =>
      [...sdp.matchAll(/a=mid:(\S+)[\s\S]*?a=ssrc:(\d+)/g)].map(([, mid, ssrc]) => `${mid} ${ssrc}`);
    const first = ssrcs((await negotiate(["a", "b"])).sdp);
    const second = ssrcs((await negotiate(["a", "c"])).sdp);
    const third = ssrcs((await negotiate(["a", "b", "c"])).sdp);
    expect(second[0]).toBe(first[0] as string);
    expect(third[0]).toBe(first[0] as string);
    expect(third[1]).not.toBe(first[1] as string);
    expect(third[2]).toBe(second[1] as string);
    viewer.close();
  });

  test("a viewer that keeps requesting keyframes of a track gets sixteen, and then one every four seconds", () => {
    const clock = fakeClock();
    const budgets = new KeyframeBudgets(clock.now);
    const granted = (seconds: number) => {
      let count = 0;
      for (let i = 0; i < seconds * 2; i += 1) {
        if (budgets.mayAsk("track")) count += 1;
        clock.advance(500);
      }
      return count;
    };
    expect(granted(8)).toBe(16);
    expect(granted(3_600)).toBe(901);
    expect(budgets.mayAsk("another")).toBe(true);
  });

  test("[contract 16] a participant cannot subscribe to its own track", async () => {
    const peer = await room.join("narcissus", {
      sections: [
        { kind: "video", direction: "sendonly" },
        { kind: "video", direction: "recvonly" },
      ],
    });
    await peer.connect([CAMERA], []);
    new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" }).sendFrame(peer, true);
    const { track } = await room.event("trackPublished");
    const update = room.node.updateSubscriptions({
      roomId: ROOM,
      participantId: "narcissus",
      tracks: [{ trackId: track.id, mid: "1" }],
    });
    expect(await refusal(update)).toBe("NEGOTIATION_FAILED");
  });
});
