import { afterAll, afterEach, describe, expect, test } from "bun:test";
import { EmbeddedMedia, type EmbeddedMediaOptions } from "../../src/nodes/embedded-media.ts";
import { MediaError, type MediaEvent } from "../../src/protocol/media-node.ts";
import { RtcPeer } from "../../src/rtc-client/peer.ts";
import { RtpSource } from "../../src/rtc-client/rtp-source.ts";
import { watchMediaWorkers } from "../harness/media-workers.ts";
import { ALL, CAMERA } from "./room-of-peers.ts";

describe("the embedded media node", () => {
  const workers = watchMediaWorkers();
  afterAll(() => workers.restore());
  const cleanup: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of cleanup.splice(0).reverse()) await close();
  });

  const log = { info: () => {}, error: () => {} };
  const where = { port: 0, hostname: "127.0.0.1", announce: ["127.0.0.1"], tcp: true };
  const start = async (options: Partial<EmbeddedMediaOptions> = {}) => {
    const media = await EmbeddedMedia.start({ workers: 2, warmUp: false, log, ...where, ...options });
    cleanup.push(() => media.close());
    const events: MediaEvent[] = [];
    media.onEvent((event) => void events.push(event));
    return { media, events };
  };
  const event = async <T extends MediaEvent["type"]>(events: MediaEvent[], type: T) => {
    for (let i = 0; i < 1_000; i++) {
      const found = events.find((candidate): candidate is Extract<MediaEvent, { type: T }> => candidate.type === type);
      if (found) return found;
      await Bun.sleep(5);
    }
    throw new Error(`no ${type}`);
  };
  const camera = () => new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
  const publish = async (media: EmbeddedMedia, roomId: string, source = camera()) => {
    await media.openRoom({ roomId });
    await media.addParticipant({ roomId, participantId: "p", identity: "p", permissions: ALL });
    const peer = await RtcPeer.create({
      node: media,
      roomId,
      participantId: "p",
      sections: [{ kind: "video", direction: "sendonly" }],
    });
    cleanup.push(() => peer.close());
    await peer.connect([CAMERA], []);
    source.sendFrame(peer, true);
    return peer;
  };
  const watch = async (media: EmbeddedMedia, roomId: string, trackId: string) => {
    await media.addParticipant({ roomId, participantId: "v", identity: "v", permissions: ALL });
    const sections = [{ kind: "video", direction: "recvonly" }] as const;
    const peer = await RtcPeer.create({ node: media, roomId, participantId: "v", sections: [...sections] });
    cleanup.push(() => peer.close());
    await peer.connect([], [{ mid: "0", trackId }]);
    return peer;
  };

  test("rooms are spread over the workers, each on exactly one", async () => {
    const { media } = await start();
    expect(new Set(media.ports).size).toBe(2);
    const ports = new Set<number>();
    for (const roomId of ["a", "b"]) ports.add((await publish(media, roomId)).remote.port);
    expect([...ports].sort()).toEqual([...media.ports].sort());
    expect((await media.rooms()).map(({ roomId }) => roomId).sort()).toEqual(["a", "b"]);
  }, 15_000);

  test("errors of the engine cross the worker with their code, and calls for unknown rooms never reach it", async () => {
    const { media } = await start();
    await media.openRoom({ roomId: "a" });
    const error = await media.unpublish({ roomId: "a", participantId: "x", trackId: "t" }).catch((e) => e);
    expect(error).toBeInstanceOf(MediaError);
    expect(error.code).toBe("PARTICIPANT_NOT_FOUND");
    expect((await media.negotiate({ roomId: "b", participantId: "x", sdp: "" }).catch((e) => e)).code).toBe(
      "ROOM_NOT_FOUND",
    );
  });

  test("a worker that dies is reported with its rooms, restarts on its port, and serves again", async () => {
    const { media, events } = await start({ workers: 1 });
    const peer = await publish(media, "a");
    await event(events, "trackPublished");
    const [port] = media.ports;
    const pending = media.room({ roomId: "a" }).catch(() => null);
    workers.crash();
    const crash = await event(events, "workerCrashed");
    expect(crash).toEqual({ type: "workerCrashed", worker: 0, rooms: [{ roomId: "a", participantIds: ["p"] }] });
    await pending;
    expect(await media.rooms()).toEqual([]);
    expect(
      (await media.setTrackMuted({ roomId: "a", participantId: "p", trackId: "t", muted: true }).catch((e) => e)).code,
    ).toBe("ROOM_NOT_FOUND");
    peer.close();
    const again = await publish(media, "a");
    expect(again.remote.port).toBe(port ?? 0);
    expect(media.ports).toEqual([port ?? 0]);
  }, 20_000);

  test("a worker that dies ends only its own rooms, and calls on other workers continue undisturbed", async () => {
    const { media, events } = await start();
    const source = camera();
    const sends = await publish(media, "a", source);
    const { track } = await event(events, "trackPublished");
    const receives = await watch(media, "a", track.id);
    await publish(media, "b");
    const arrives = async (atLeast: number) => {
      for (let i = 0; receives.packetsIn < atLeast && i < 1_000; i++, await Bun.sleep(5)) source.sendFrame(sends, true);
      expect(receives.packetsIn).toBeGreaterThanOrEqual(atLeast);
    };
    await arrives(1);
    workers.crash();
    const { rooms } = await event(events, "workerCrashed");
    expect(rooms).toEqual([{ roomId: "b", participantIds: ["p"] }]);
    expect(await media.rooms()).toEqual([{ roomId: "a", participants: 2 }]);
    await arrives(receives.packetsIn + 10);
    expect(events.filter(({ type }) => type === "workerCrashed")).toHaveLength(1);
  }, 60_000);

  test("a worker that exceeds its memory limit is replaced like one that hangs, and logged", async () => {
    const { promise: reported, resolve } = Promise.withResolvers<object>();
    const error = (details: object, message: string) => {
      if (message === "media worker: memory limit exceeded") resolve(details);
    };
    const { media, events } = await start({ workers: 1, maxMemoryMb: 192, log: { ...log, error } });
    const [port] = media.ports;
    const long = (i: number) => ({ roomId: `${i}-${"r".repeat(1_000_000)}` });
    await media.openRoom({ roomId: "a" });
    let isTold = false;
    void reported.then(() => {
      isTold = true;
    });
    // At the worker's pace, so that it is seen to grow and not found dead.
    for (let i = 0; !isTold && i < 2_000; i++) await media.openRoom(long(i)).catch(() => {});
    expect(await reported).toMatchObject({ worker: 0, maxMemoryMb: 192 });
    const { rooms } = await event(events, "workerCrashed");
    expect(rooms.map(({ roomId }) => roomId)).toContain("a");
    await media.openRoom({ roomId: "b" });
    expect(media.ports).toEqual([port ?? 0]);
    expect(events.filter(({ type }) => type === "workerCrashed")).toHaveLength(1);
  }, 120_000);

  test("a worker whose port is in use when it restarts tries again until it is free", async () => {
    const { media, events } = await start({ workers: 1 });
    await media.openRoom({ roomId: "a" });
    const port = media.ports[0] ?? 0;
    let thief: Bun.udp.Socket<"buffer"> | null = null;
    while (!thief) {
      events.length = 0;
      workers.crash();
      await event(events, "workerCrashed");
      // Quicker than a thread that has to load everything first; where it is not, once more.
      for (let tries = 0; !thief && tries < 200; tries++) {
        thief = await Bun.udpSocket({ hostname: "127.0.0.1", port }).catch(() => Bun.sleep(1).then(() => null));
      }
    }
    const refused = () => events.filter(({ type }) => type === "workerCrashed").length;
    while (refused() < 2) await Bun.sleep(5);
    thief.close();
    await media.openRoom({ roomId: "b" });
    expect(await media.rooms()).toEqual([{ roomId: "b", participants: 0 }]);
    expect(media.ports).toEqual([port]);
  }, 30_000);

  test("a worker that dies while it starts is replaced by a working one", async () => {
    const media = EmbeddedMedia.spawn(1, log);
    cleanup.push(() => media.close());
    workers.crash();
    await media.listen(where);
    await media.openRoom({ roomId: "r" });
    expect(media.ports[0]).toBeGreaterThan(0);
  });

  test("a node that is closed before it listens ends its threads and does not listen", async () => {
    const media = EmbeddedMedia.spawn(2, log);
    await media.close();
    await expect(media.listen(where)).rejects.toThrow("closed");
  });

  test("calls under way when a worker dies are answered with an error", async () => {
    const { media } = await start({ workers: 1 });
    await media.openRoom({ roomId: "a" });
    workers.crash();
    const answers = await Promise.all(
      Array.from({ length: 5 }, () => media.room({ roomId: "a" }).catch((e) => e.code)),
    );
    expect(answers).toEqual(Array(5).fill("RTC_SERVER_UNREACHABLE"));
  });

  test("the load is the sum over all workers", async () => {
    const { media } = await start();
    await publish(media, "a");
    await media.load();
    await Bun.sleep(100);
    const load = await media.load();
    expect(load).toMatchObject({ rooms: 1, participants: 1 });
    expect(load.cpuPercent).toBeGreaterThan(0);
    expect(load.memoryPercent).toBeGreaterThan(0);
    expect(load.packetsIn).toBeGreaterThan(0);
    expect(load.refused.forgedCheck).toBe(0);
  }, 15_000);

  test("starting on a port that is in use fails with the reason", async () => {
    const { media } = await start({ workers: 1 });
    const failed = EmbeddedMedia.start({
      workers: 1,
      port: media.ports[0] ?? 0,
      hostname: "127.0.0.1",
      announce: ["127.0.0.1"],
      tcp: false,
      log: { info: () => {}, error: () => {} },
    });
    await expect(failed).rejects.toThrow(/EADDRINUSE/);
  });
});
