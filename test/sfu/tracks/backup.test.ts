/** A viewer that cannot decode a track's codec makes its publisher send the video in a second one, as long as it stays. */
import { afterEach, expect, test } from "bun:test";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { CAMERA, ROOM, RoomOfPeers } from "../room-of-peers.ts";

let room: RoomOfPeers;
afterEach(() => room.close());

const BACKUP = { mid: "1", clientTrackId: "backup", kind: "video", source: "camera" } as const;

test("[17] the publisher of VP9 sends VP8 too while a viewer decodes nothing else, and other participants see one track", async () => {
  room = await RoomOfPeers.open();
  const ann = await room.join("ann", { sections: [{ kind: "video", direction: "sendonly", codec: "VP9" }] });
  await ann.connect([CAMERA], []);
  const main = new RtpSource({ ssrc: 11, payloadType: 96, mid: "0" });
  const vp9 = (keyframe: boolean) => {
    main.timestamp += 3_000;
    main.send(ann, Uint8Array.of(keyframe ? 0x0c : 0x4c, 1, 2, 3), true);
  };
  vp9(true);
  const { track } = await room.event("trackPublished");

  const got: string[] = [];
  const able = await room.join("able", {
    sections: [{ kind: "video", direction: "recvonly", codecs: ["VP8", "VP9"] }],
    onRtp: (view) => got.push(`able ${view.payloadType}`),
  });
  await able.connect([], [{ mid: "0", trackId: track.id }]);
  const legacy = await room.join("legacy", {
    sections: [{ kind: "video", direction: "recvonly", codecs: ["VP8", "H264"] }],
    onRtp: (view) => got.push(`legacy ${view.payloadType}`),
  });
  await legacy.connect([], [{ mid: "0", trackId: track.id }]);
  await room.event(
    "subscriptionChanged",
    ({ participantId, reason }) => participantId === "legacy" && reason === "codec",
  );
  const wanted = await room.event("codecsWanted");
  expect(wanted).toMatchObject({ participantId: "ann", trackId: track.id, codecs: ["VP8"] });

  // The backup begins: the viewer gets it under the same track, and no other track is announced.
  ann.options.sections = [...ann.options.sections, { kind: "video", direction: "sendonly", codec: "VP8" }];
  const tracks = await ann.negotiate([CAMERA, { ...BACKUP, backupOf: track.id }], []);
  expect(tracks).toEqual([
    { clientTrackId: "camera", trackId: track.id },
    { clientTrackId: "backup", trackId: track.id },
  ]);
  // A viewer that can decode the track is not affected by its backup, and needs no keyframe.
  const backup = new RtpSource({ ssrc: 12, payloadType: 96, mid: "1" });
  const both = async (who: string) => {
    const before = got.filter((one) => one.startsWith(who)).length;
    await room.until(() => {
      vp9(true);
      backup.sendFrame(ann, true);
      return got.filter((one) => one.startsWith(who)).length > before || undefined;
    }, `packets for ${who}`);
  };
  const reached = (who: string) => got.filter((one) => one.startsWith(who)).length;
  vp9(true);
  await room.until(() => reached("able") > 0 || undefined, "a keyframe");
  // No keyframe is recent enough to be repeated.
  room.aheadMs += 1_000;
  await room.until(() => {
    backup.sendFrame(ann, true);
    return reached("legacy") > 0 || undefined;
  }, "the backup");
  const before = reached("able");
  await room.until(() => {
    vp9(false);
    return reached("able") > before + 3 || undefined;
  }, "frames for the viewer of VP9");
  await both("legacy");
  await both("able");
  expect([...new Set(got)].sort()).toEqual(["able 98", "legacy 96"]);
  expect(room.events.filter(({ type }) => type === "trackPublished")).toHaveLength(1);
  expect((await room.participant("ann"))?.tracks).toEqual([expect.objectContaining({ id: track.id, codec: "VP9" })]);

  // A mute holds for both.
  await room.node.setTrackMuted({ roomId: ROOM, participantId: "ann", trackId: track.id, muted: true });
  await room.event("trackMuted");
  expect(room.events.filter(({ type }) => type === "trackMuted")).toHaveLength(1);
  await room.node.setTrackMuted({ roomId: ROOM, participantId: "ann", trackId: track.id, muted: false });
  await both("legacy");

  // The backup is wanted until ten seconds after the viewer has left.
  await room.node.removeParticipant({ roomId: ROOM, participantId: "legacy" });
  const nowMs = () => performance.now() + room.aheadMs;
  const leftAtMs = nowMs();
  await room.until(() => {
    room.aheadMs += 50;
    return room.events.find((event) => event.type === "codecsWanted" && event.codecs.length === 0);
  }, "the end of the backup");
  expect(nowMs() - leftAtMs).toBeGreaterThan(8_000);
  await ann.negotiate([CAMERA], []);
  await both("able");
  expect(room.events.filter(({ type }) => type === "layersWanted")).toEqual([]);
  expect(room.events.filter(({ type }) => type === "trackUnpublished")).toEqual([]);

  // The end of a track is the end of its backup.
  await ann.negotiate([CAMERA, { ...BACKUP, backupOf: track.id }], []);
  await ann.negotiate([{ ...BACKUP, backupOf: track.id }], []);
  await room.event("trackUnpublished");
  expect((await room.participant("ann"))?.tracks).toEqual([]);
}, 30_000);
