import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { ALL, CAMERA, ROOM, RoomOfPeers, refusal } from "../room-of-peers.ts";

describe("a participant does only what its permissions allow", () => {
  let room: RoomOfPeers;
  beforeEach(async () => {
    room = await RoomOfPeers.open();
  });
  afterEach(() => room.close());

  test("[2] publishing without permission is refused, and stops when the permission is revoked", async () => {
    const viewer = await room.join(
      "viewer",
      { sections: [{ kind: "video", direction: "sendonly" }] },
      { publish: false },
    );
    expect(await refusal(viewer.negotiate([CAMERA], []))).toBe("PERMISSION_DENIED");
    const publisher = await room.join("publisher", { sections: [{ kind: "video", direction: "sendonly" }] });
    await publisher.connect([CAMERA], []);
    new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" }).sendFrame(publisher, true);
    const { track } = await room.event("trackPublished");
    await room.node.setPermissions({
      roomId: ROOM,
      participantId: "publisher",
      permissions: { ...ALL, publishAudio: true },
    });
    await room.event("trackUnpublished", (event) => event.trackId === track.id);
    expect((await room.participant("publisher"))?.tracks).toEqual([]);
  });

  test("[2] subscribing without permission is refused, and stops when the permission is revoked", async () => {
    const { peer, source } = await room.speaker("speaker", 7);
    source.sendAudio(peer);
    const { track } = await room.event("trackPublished");
    const deaf = await room.join(
      "deaf",
      { sections: [{ kind: "audio", direction: "recvonly" }] },
      { subscribe: false },
    );
    expect(await refusal(deaf.negotiate([], [{ mid: "0", trackId: track.id }]))).toBe("PERMISSION_DENIED");
    await deaf.negotiate([], []);
    expect(
      await refusal(
        room.node.updateSubscriptions({
          roomId: ROOM,
          participantId: "deaf",
          tracks: [{ trackId: track.id, mid: "0" }],
        }),
      ),
    ).toBe("PERMISSION_DENIED");
    const listener = await room.join("listener", { sections: [{ kind: "audio", direction: "recvonly" }] });
    await listener.connect([], [{ mid: "0", trackId: track.id }]);
    source.sendAudio(peer);
    await room.until(() => listener.packetsIn || undefined, "sound");
    await room.node.setPermissions({
      roomId: ROOM,
      participantId: "listener",
      permissions: { ...ALL, subscribe: false },
    });
    const before = listener.packetsIn;
    for (let i = 0; i < 5; i++) source.sendAudio(peer);
    await Bun.sleep(50);
    expect(listener.packetsIn).toBe(before);
  });
});
