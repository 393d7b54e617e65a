import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { RtpSource } from "../../../../src/rtc-client/rtp-source.ts";
import { CAMERA, MICROPHONE, RoomOfPeers } from "../../room-of-peers.ts";

describe("codecs of publisher and subscriber", () => {
  let room: RoomOfPeers;
  beforeEach(async () => {
    room = await RoomOfPeers.open();
  });
  afterEach(() => room.close());

  test("a subscriber gets H.264 under its own payload type, and is notified of a track that it cannot decode", async () => {
    const publisher = await room.join("publisher", {
      sections: [{ kind: "video", direction: "sendonly", codec: "H264" }],
    });
    await publisher.connect([CAMERA], []);
    const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
    const idr = new Uint8Array([0x65, 1, 2, 3]);
    const parameters = new Uint8Array([0x78, 0, 4, 0x67, 0x42, 0xe0, 0x1f, 0, 4, 0x68, 1, 1, 1, 0, 4, 0x65, 1, 1, 1]);
    source.send(publisher, parameters, true);
    const { track } = await room.event("trackPublished");
    expect(track.codec).toBe("H264");
    const types: number[] = [];
    const viewer = await room.join("viewer", {
      sections: [{ kind: "video", direction: "recvonly", codec: "H264" }],
      onRtp: ({ payloadType }) => void types.push(payloadType),
    });
    await viewer.connect([], [{ mid: "0", trackId: track.id }]);
    const other = await room.join("other", { sections: [{ kind: "video", direction: "recvonly", codec: "VP8" }] });
    await other.connect([], [{ mid: "0", trackId: track.id }]);
    await room.event(
      "subscriptionChanged",
      (event) => event.identity === "other" && event.paused && event.reason === "codec",
    );
    source.send(publisher, parameters, false);
    source.send(publisher, idr, true);
    await room.until(() => (types.length >= 1 ? true : undefined), "H.264");
    expect(types[0]).toBe(96);
    expect(other.packetsIn).toBe(0);
  });

  test("redundant audio is forwarded, and unwrapped for a subscriber that did not negotiate it", async () => {
    const publisher = await room.join("publisher", { sections: [{ kind: "audio", direction: "sendonly", red: true }] });
    await publisher.connect([MICROPHONE], []);
    const source = new RtpSource({ ssrc: 7, payloadType: 63, mid: "0" });
    // Two blocks: three bytes of an earlier frame, then the newest.
    const red = new Uint8Array([0x80 | 111, 0, 0, 3, 111, 1, 2, 3, 9, 8, 7, 6]);
    source.sendAudio(publisher, red);
    const { track } = await room.event("trackPublished");
    expect(track.codec).toBe("opus");
    const got: Record<string, { payloadType: number; payload: number[] }> = {};
    const listen = async (identity: string, withRed: boolean) => {
      const peer = await room.join(identity, {
        sections: [{ kind: "audio", direction: "recvonly", red: withRed }],
        onRtp: ({ payloadType, data, payloadOffset, payloadLength }) => {
          got[identity] = { payloadType, payload: [...data.subarray(payloadOffset, payloadOffset + payloadLength)] };
        },
      });
      await peer.connect([], [{ mid: "0", trackId: track.id }]);
    };
    await listen("modern", true);
    await listen("plain", false);
    source.sendAudio(publisher, red);
    await room.until(() => (Object.keys(got).length === 2 ? true : undefined), "both");
    expect(got.modern).toEqual({ payloadType: 63, payload: [...red] });
    expect(got.plain).toEqual({ payloadType: 111, payload: [9, 8, 7, 6] });
    source.sendAudio(publisher, new Uint8Array([0x80 | 111, 0, 3, 255, 111, 1]));
    await Bun.sleep(50);
    expect(got.plain?.payload).toEqual([9, 8, 7, 6]);
  });
});
