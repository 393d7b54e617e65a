import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EmbeddedMedia } from "../../../src/nodes/embedded-media.ts";
import type { MediaEvent } from "../../../src/protocol/media-node.ts";
import { type PeerOptions, RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { watchMediaWorkers } from "../../harness/media-workers.ts";
import { ALL, CAMERA } from "../room-of-peers.ts";
import { until } from "./two-workers.ts";

const ROOM = { roomId: "r" };

describe("a room on several workers", () => {
  const workers = watchMediaWorkers();
  afterAll(() => workers.restore());
  const cleanup: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of cleanup.splice(0).reverse()) await close();
  });

  const start = async (options: { hostname?: string; spreadFrom?: number } = {}) => {
    const spread: object[] = [];
    const log = {
      info: (details: object, message: string) =>
        void (message === "media: room spread to a worker" && spread.push(details)),
      error: () => {},
    };
    const where = { port: 0, hostname: "127.0.0.1", announce: ["127.0.0.1"], tcp: false };
    const media = await EmbeddedMedia.start({ workers: 2, warmUp: false, log, ...where, spreadFrom: 2, ...options });
    cleanup.push(() => media.close());
    const events: MediaEvent[] = [];
    media.onEvent((event) => void events.push(event));
    await media.openRoom(ROOM);
    return { media, events, spread };
  };
  const add = async (media: EmbeddedMedia, identity: string, sections: PeerOptions["sections"]) => {
    await media.addParticipant({ ...ROOM, participantId: identity, identity, permissions: ALL });
    const peer = await RtcPeer.create({ node: media, ...ROOM, participantId: identity, sections });
    cleanup.push(() => peer.close());
    return peer;
  };
  const film = async (media: EmbeddedMedia, events: MediaEvent[], identity: string) => {
    const peer = await add(media, identity, [{ kind: "video", direction: "sendonly" }]);
    await peer.connect([CAMERA], []);
    const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
    let frames = 0;
    const timer = setInterval(() => source.sendFrame(peer, frames++ % 50 === 0), 10);
    cleanup.push(() => clearInterval(timer));
    const published = await until(
      () => events.find((event) => event.type === "trackPublished" && event.identity === identity),
      "the track",
    );
    return { peer, trackId: published.type === "trackPublished" ? published.track.id : "" };
  };
  const watch = async (media: EmbeddedMedia, identity: string, trackId: string) => {
    const peer = await add(media, identity, [{ kind: "video", direction: "recvonly" }]);
    await peer.connect([], [{ mid: "0", trackId }]);
    return peer;
  };
  const keepsReceiving = async (peer: RtcPeer, packets = 20) => {
    const before = peer.mediaIn;
    await until(() => peer.mediaIn >= before + packets, "packets");
  };

  test.each(["127.0.0.1", "::"])(
    "participants who join a full room are on another worker and see all others (bound to %s)",
    async (hostname) => {
      const { media, events, spread } = await start({ hostname });
      const host = await film(media, events, "host");
      const near = await watch(media, "near", host.trackId);
      expect(near.remote.port).toBe(host.peer.remote.port);
      await until(() => spread.length === 1, "the room to spread");
      const far = await watch(media, "far", host.trackId);
      expect(far.remote.port).not.toBe(host.peer.remote.port);
      await keepsReceiving(far);
      await keepsReceiving(near);
      const guest = await film(media, events, "guest");
      expect(guest.peer.remote.port).toBe(far.remote.port);
      await media.updateSubscriptions({
        ...ROOM,
        participantId: "near",
        tracks: [{ mid: "0", trackId: guest.trackId }],
      });
      await keepsReceiving(near);
      const snapshot = await media.room(ROOM);
      expect(snapshot?.participants.map(({ identity }) => identity).sort()).toEqual(["far", "guest", "host", "near"]);
      expect(await media.rooms()).toEqual([{ ...ROOM, participants: 4 }]);
      expect((await media.load()).relays).toEqual({ links: 1, streams: 2 });
      await media.sendData({ ...ROOM, from: "host", payload: "hello" });
      const recipients = () => events.flatMap((event) => (event.type === "data" ? event.recipients : [])).sort();
      await until(() => recipients().length === 3, "the data");
      expect(recipients()).toEqual(["far", "guest", "near"]);
    },
    90_000,
  );

  test("when a worker dies, only its participants are disconnected, and they rejoin the room", async () => {
    const { media, events, spread } = await start();
    const host = await film(media, events, "host");
    const near = await watch(media, "near", host.trackId);
    await until(() => spread.length === 1, "the room to spread");
    await keepsReceiving(await watch(media, "far", host.trackId));
    workers.crash();
    const crash = await until(() => events.find(({ type }) => type === "workerCrashed"), "the crash");
    expect(crash).toMatchObject({ rooms: [{ ...ROOM, participantIds: ["far"], remains: true, recordingEnds: false }] });
    await keepsReceiving(near);
    expect(await media.rooms()).toEqual([{ ...ROOM, participants: 2 }]);
    const again = await watch(media, "again", host.trackId);
    await keepsReceiving(again);
    // The room is full again, and the worker has been restarted.
    await until(() => spread.length === 2, "the room to spread again");
    await keepsReceiving(await watch(media, "far", host.trackId));
  }, 90_000);

  test("a recording has the tracks of every worker, and the last participant to leave a worker ends it there", async () => {
    const directory = mkdtempSync(join(tmpdir(), "stoa-spread-"));
    cleanup.push(() => rmSync(directory, { recursive: true, force: true }));
    const { media, events, spread } = await start();
    const host = await film(media, events, "host");
    await watch(media, "near", host.trackId);
    await until(() => spread.length === 1, "the room to spread");
    await media.startRecording({
      ...ROOM,
      recordingId: crypto.randomUUID(),
      directory,
      startedAtMs: Date.now(),
    } as never);
    await film(media, events, "guest");
    const recorded = (type: "recordingFileStarted" | "recordingFileEnded") =>
      events.flatMap((event) => (event.type === type ? event.file.identity : []));
    await until(() => recorded("recordingFileStarted").length === 2, "both files");
    expect(recorded("recordingFileStarted").sort()).toEqual(["guest", "host"]);
    await media.removeParticipant({ ...ROOM, participantId: "guest" });
    await until(() => recorded("recordingFileEnded").includes("guest"), "the end of the file");
    expect((await media.load()).relays).toEqual({ links: 0, streams: 0 });
    expect(await media.rooms()).toEqual([{ ...ROOM, participants: 2 }]);
  }, 90_000);

  test("a room stays on one worker while it is small, and where spreading is off", async () => {
    const { media, events, spread } = await start({ spreadFrom: Number.POSITIVE_INFINITY });
    const host = await film(media, events, "host");
    for (const identity of ["a", "b", "c"])
      expect((await watch(media, identity, host.trackId)).remote.port).toBe(host.peer.remote.port);
    expect(spread).toEqual([]);
    expect((await media.load()).relays).toEqual({ links: 0, streams: 0 });
  }, 90_000);
});
