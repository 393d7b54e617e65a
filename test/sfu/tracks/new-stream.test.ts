import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import type { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { CAMERA, RoomOfPeers } from "../room-of-peers.ts";

describe("a camera that continues under another SSRC", () => {
  let room: RoomOfPeers;
  let publisher: RtcPeer;
  let seen: { sequenceNumber: number; timestamp: number }[];

  beforeEach(async () => {
    room = await RoomOfPeers.open();
    publisher = await room.join("publisher", { sections: [{ kind: "video", direction: "sendonly" }] });
    await publisher.connect([CAMERA], []);
    seen = [];
  });
  afterEach(() => room.close());

  const stream = (ssrc: number, firstSequence: number) =>
    new RtpSource({ ssrc, payloadType: 96, mid: "0", firstSequence });

  test.each([100, 30_000, 65_500])("has consecutive sequence numbers when it starts at %d", async (begins) => {
    const before = stream(77, 20_000);
    before.sendFrame(publisher, true);
    const trackId = (await room.event("trackPublished")).track.id;
    for (const identity of ["one", "two"]) {
      const viewer = await room.join(identity, {
        sections: [{ kind: "video", direction: "recvonly" }],
        onRtp: ({ sequenceNumber, timestamp }) => {
          if (identity === "one") seen.push({ sequenceNumber, timestamp });
        },
      });
      await viewer.connect([], [{ mid: "0", trackId }]);
    }
    await room.until(() => (seen.length > 0 ? true : undefined), "the first frame");
    for (let i = 0; i < 20; i++) before.sendFrame(publisher, false);
    await room.until(() => (seen.length >= 21 ? true : undefined), "the old stream");
    const count = seen.length;
    const after = stream(78, begins);
    after.sendFrame(publisher, true);
    for (let i = 1; i < 100; i++) {
      after.sendFrame(publisher, false);
      // Stragglers of the old stream change nothing.
      if (i % 10 === 0) before.sendFrame(publisher, false);
    }
    await room.until(() => (seen.length >= count + 100 ? true : undefined), "the new stream");
    await Bun.sleep(50);
    expect(seen.length).toBe(count + 100);
    const numbers = seen.map(({ sequenceNumber }) => sequenceNumber);
    expect(numbers).toEqual(numbers.map((_, i) => ((numbers[0] ?? 0) + i) & 0xffff));
    const gap = ((seen[count]?.timestamp ?? 0) - (seen[count - 1]?.timestamp ?? 0)) >>> 0;
    expect(gap).toBeGreaterThan(0);
    expect(gap).toBeLessThan(90_000 * 2);
  });
});
