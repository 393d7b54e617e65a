import { afterEach, describe, expect, test } from "bun:test";
import type { MediaEvent } from "../../../src/protocol/media-node.ts";
import type { PeerOptions, RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { typescriptPath } from "../../../src/sfu/fast-path/fast-path.ts";
import { openNativePath } from "../../../src/sfu/fast-path/native-path.ts";
import { nativeLibraryPath } from "../fast-path/both-paths.ts";
import { CAMERA, MICROPHONE } from "../room-of-peers.ts";
import { nodeLinks, type Site, startChain, TwoWorkers, until } from "./two-workers.ts";

const library = await nativeLibraryPath();
const PATHS = [
  ["TypeScript", () => typescriptPath],
  ["native code", () => openNativePath(library)],
] as const;
const RIDS = ["q", "h", "f"] as const;
const RECEIVING = [{ kind: "video", direction: "recvonly" }] as const;

describe.each(PATHS)("two workers with a link, on %s", (_name, path) => {
  let workers: TwoWorkers;
  const timers: Timer[] = [];
  afterEach(() => {
    for (const timer of timers.splice(0)) clearInterval(timer);
    workers.close();
  });

  const start = async (...rooms: string[]) => {
    workers = await TwoWorkers.start(path);
    await workers.share(...rooms);
    return workers;
  };
  /** Sends frames of one packet, and a keyframe whenever one is requested. */
  const film = (peer: RtcPeer, sources: RtpSource[], isKeyframe: () => boolean = () => false) => {
    for (const source of sources) source.sendFrame(peer, true);
    timers.push(
      setInterval(() => {
        const keyframe = isKeyframe();
        for (const source of sources) source.sendFrame(peer, keyframe);
      }, 10),
    );
  };
  const camera = async (site: Site, roomId: string, identity: string, rids: readonly string[] = []) => {
    const asked = { times: 0, due: false };
    const trackId = `${identity}-camera`;
    const peer = await site.join(roomId, identity, [{ kind: "video", direction: "sendonly", rids: [...rids] }], {
      onRtcp: (packet) => {
        if (packet.type !== "pli") return;
        asked.times += 1;
        asked.due = true;
      },
    });
    await peer.connect([{ ...CAMERA, trackId } as typeof CAMERA], []);
    const take = () => {
      const { due } = asked;
      asked.due = false;
      return due;
    };
    return { peer, trackId, asked, take };
  };
  const announced = (site: Site, trackId: string) =>
    until(
      () => site.events.find((event) => event.type === "trackPublished" && event.track.id === trackId),
      "the track",
    );
  const viewer = async (site: Site, roomId: string, identity: string, subscribe: object, onRtp = () => {}) => {
    const peer = await site.join(roomId, identity, [...RECEIVING], { onRtp });
    await peer.connect([], [{ mid: "0", ...subscribe } as never]);
    return peer;
  };
  const keepsReceiving = async (peer: RtcPeer, packets = 20) => {
    const before = peer.mediaIn;
    await until(() => peer.mediaIn >= before + packets, "packets");
  };

  test("rooms share one link, on which tracks cross in both directions", async () => {
    const { a, b, links } = await start("one", "two");
    expect(links.size).toBe(1);
    const [first, second] = [await camera(a, "one", "alice"), await camera(b, "two", "bob")];
    film(first.peer, [new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" })], first.take);
    film(second.peer, [new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" })], second.take);
    await announced(a, first.trackId);
    await announced(b, second.trackId);
    const far = await viewer(b, "one", "far", { trackId: first.trackId });
    const near = await viewer(a, "one", "near", { trackId: first.trackId });
    const back = await viewer(a, "two", "back", { trackId: second.trackId });
    for (const peer of [far, near, back]) await keepsReceiving(peer);
    const stranger = await b.join("two", "stranger", [...RECEIVING]);
    await stranger.connect([], [{ mid: "0", trackId: first.trackId }]);
    expect(stranger.mediaIn).toBe(0);
  }, 60_000);

  test("a layer is relayed while a viewer wants it, and stops six seconds after the last one", async () => {
    const { a, b, clock } = await start("room");
    const { peer, take, trackId } = await camera(a, "room", "alice", RIDS);
    const sources = RIDS.map((rid, i) => new RtpSource({ ssrc: 70 + i, payloadType: 96, mid: "0", rid }));
    film(peer, sources, take);
    await announced(a, trackId);
    const crossing = () => a.engine.relays.streams;
    expect(crossing()).toBe(0);
    const low = await viewer(b, "room", "low", { trackId, layer: "low" });
    await keepsReceiving(low);
    expect(crossing()).toBe(1);
    const high = await viewer(b, "room", "high", { trackId, layer: "high" });
    await until(
      () =>
        b.events.some(
          (event) => event.type === "subscriptionChanged" && event.identity === "high" && event.layer === "high",
        ),
      "the high layer",
    );
    expect(crossing()).toBe(3);
    await keepsReceiving(high);
    await b.call("removeParticipant", { roomId: "room", participantId: "high" });
    const leftAtMs = performance.now();
    await until(() => {
      clock.aheadMs += 60;
      return crossing() === 1;
    }, "the upper layers to stop");
    expect(performance.now() - leftAtMs + clock.aheadMs).toBeGreaterThan(5_000);
    await keepsReceiving(low);
    await b.call("removeParticipant", { roomId: "room", participantId: "low" });
    await until(() => {
      clock.aheadMs += 60;
      return crossing() === 0;
    }, "the lowest layer to stop");
  }, 90_000);

  test("packets lost on a link are requested again on the link: viewers miss no video, and no keyframe is requested", async () => {
    const { a, b } = await start("room");
    const { peer, asked, take, trackId } = await camera(a, "room", "alice");
    film(peer, [new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" })], take);
    await announced(a, trackId);
    const numbers = new Set<number>();
    const sections = [...RECEIVING];
    const far = await b.join("room", "far", sections, { onRtp: (view) => void numbers.add(view.sequenceNumber) });
    await far.connect([], [{ mid: "0", trackId }]);
    await keepsReceiving(far);
    const requestedBefore = asked.times;
    numbers.clear();
    a.impaired = { port: b.port, options: { lossRatio: 0.08 } };
    b.impaired = { port: a.port, options: { lossRatio: 0.08 } };
    await until(() => numbers.size >= 250, "many packets", 60_000);
    a.impaired.port = b.impaired.port = -1;
    await keepsReceiving(far, 50);
    const [first, last] = [Math.min(...numbers), Math.max(...numbers)];
    expect(last - first + 1 - numbers.size).toBe(0);
    expect(asked.times).toBe(requestedBefore);
    expect((await a.call("load", undefined)).nacksIn).toBeGreaterThan(0);
  }, 90_000);

  test("a narrow link between nodes carries the lower layers only, and its viewers get these", async () => {
    workers = await TwoWorkers.start(path, nodeLinks());
    await workers.share("room");
    const { a, b } = workers;
    const { peer, take, trackId } = await camera(a, "room", "alice", RIDS);
    const sources = RIDS.map((rid, i) => new RtpSource({ ssrc: 70 + i, payloadType: 96, mid: "0", rid }));
    film(peer, sources, take);
    await announced(a, trackId);
    const far = await viewer(b, "room", "far", { trackId, layer: "high" });
    const layers = () =>
      b.events.flatMap((event) =>
        event.type === "subscriptionChanged" && event.identity === "far" ? event.layer : [],
      );
    await until(() => layers().at(-1) === "high", "the high layer");
    await keepsReceiving(far, 100);
    expect(a.engine.relays.streams).toBe(3);
    // A little more than one layer has, when frames are sent in time.
    a.impaired = { port: b.port, options: { bandwidthBitsPerSecond: 270_000, queueBytes: 10_000 } };
    await until(() => a.engine.relays.streams < 3, "a layer to stop");
    await until(() => ["low", "medium"].includes(layers().at(-1) ?? ""), "a lower layer");
    await keepsReceiving(far, 100);
  }, 60_000);

  test.each(["workers", "nodes"] as const)(
    "across %s, a publisher sends a backup codec while a viewer of the other decodes nothing else",
    async (kind) => {
      workers = await TwoWorkers.start(path, kind === "nodes" ? nodeLinks() : undefined);
      await workers.share("room");
      const { a, b, clock } = workers;
      const trackId = "alice-camera";
      const sending = { kind: "video", direction: "sendonly" } as const;
      const peer = await a.join("room", "alice", [{ ...sending, codec: "VP9" }]);
      const published = { ...CAMERA, trackId } as typeof CAMERA;
      await peer.connect([published], []);
      const main = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
      const backup = new RtpSource({ ssrc: 8, payloadType: 96, mid: "1" });
      let sendsBackup = false;
      const send = () => {
        main.timestamp += 900;
        main.send(peer, Uint8Array.of(0x0c, 1, 2, 3), true);
        if (sendsBackup) backup.sendFrame(peer, true);
      };
      send();
      timers.push(setInterval(send, 10));
      await announced(a, trackId);

      const got: string[] = [];
      const watch = async (identity: string, codecs: PeerOptions["sections"][number]["codecs"]) => {
        const onRtp = ({ payloadType }: { payloadType: number }) => void got.push(`${identity} ${payloadType}`);
        const far = await b.join("room", identity, [{ kind: "video", direction: "recvonly", codecs }], { onRtp });
        await far.connect([], [{ mid: "0", trackId }]);
        return far;
      };
      const able = await watch("able", ["VP8", "VP9"]);
      const legacy = await watch("legacy", ["VP8", "H264"]);
      const wanted = (count: number) =>
        until(() => {
          const event = a.events.findLast(({ type }) => type === "codecsWanted");
          return event?.type === "codecsWanted" && event.codecs.length === count && event;
        }, "the wanted codecs");
      expect(await wanted(1)).toMatchObject({ participantId: "alice", trackId, codecs: ["VP8"] });
      await keepsReceiving(able);
      expect(legacy.mediaIn).toBe(0);

      peer.options.sections = [...peer.options.sections, { ...sending, codec: "VP8" }];
      await peer.negotiate([published, { ...CAMERA, mid: "1", clientTrackId: "backup", backupOf: trackId }], []);
      sendsBackup = true;
      await keepsReceiving(legacy);
      await keepsReceiving(able);
      // A second viewer gets the same backup, and both workers still know one track.
      const late = await watch("late", ["VP8", "H264"]);
      await keepsReceiving(late);
      expect([...new Set(got)].sort()).toEqual(["able 98", "late 96", "legacy 96"]);
      expect((await a.call("room", { roomId: "room" }))?.participants).toMatchObject([{ tracks: [{ id: trackId }] }]);
      expect(a.engine.relays.streams).toBe(2);

      // A mute holds for the backup too.
      const alice = { roomId: "room", participantId: "alice", trackId };
      await a.call("setTrackMuted", { ...alice, muted: true });
      for (let before = -1; before !== legacy.mediaIn + able.mediaIn; ) {
        before = legacy.mediaIn + able.mediaIn;
        await Bun.sleep(100);
      }
      await a.call("setTrackMuted", { ...alice, muted: false });
      await keepsReceiving(legacy);
      await keepsReceiving(able);

      for (const participantId of ["legacy", "late"])
        await b.call("removeParticipant", { roomId: "room", participantId });
      const now = () => performance.now() + clock.aheadMs;
      const leftAtMs = now();
      await until(() => {
        clock.aheadMs += 50;
        const event = a.events.findLast(({ type }) => type === "codecsWanted");
        return event?.type === "codecsWanted" && event.codecs.length === 0;
      }, "the end of the backup");
      expect(now() - leftAtMs).toBeGreaterThan(9_000);
      await until(() => a.engine.relays.streams === 1, "the backup to leave the link");
      await peer.negotiate([published], []);
      await keepsReceiving(able);
    },
    90_000,
  );

  test("a mute, an unmute and the end of a track reach the other worker", async () => {
    const { a, b } = await start("room");
    const { peer, take, trackId } = await camera(a, "room", "alice");
    film(peer, [new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" })], take);
    await announced(a, trackId);
    const far = await viewer(b, "room", "far", { trackId });
    await keepsReceiving(far);
    const alice = { roomId: "room", participantId: "alice", trackId };
    await a.call("setTrackMuted", { ...alice, muted: true });
    await Bun.sleep(100);
    const muted = far.mediaIn;
    await keepsReceiving(far, 0);
    await Bun.sleep(100);
    expect(far.mediaIn).toBe(muted);
    await a.call("setTrackMuted", { ...alice, muted: false });
    await keepsReceiving(far);
    await a.call("unpublish", alice);
    expect((await b.call("room", { roomId: "room" }))?.participants).toMatchObject([
      { identity: "far", subscriptions: [] },
    ]);
    const refused = b.call("updateSubscriptions", {
      roomId: "room",
      participantId: "far",
      tracks: [{ mid: "0", trackId }],
    });
    await expect(refused).rejects.toMatchObject({ code: "TRACK_NOT_FOUND" });
  }, 60_000);

  test("the loudest voices are chosen from all sound of the room, on either worker", async () => {
    const { a, b } = await start("room");
    const microphone = async (site: Site, identity: string) => {
      const peer = await site.join("room", identity, [{ kind: "audio", direction: "sendonly" }]);
      await peer.connect([MICROPHONE], []);
      const source = new RtpSource({ ssrc: 9, payloadType: 111, mid: "0", audioLevel: 20 });
      timers.push(setInterval(() => source.sendAudio(peer), 20));
    };
    await microphone(a, "alice");
    await microphone(b, "bob");
    const speakers = (site: Site) =>
      until(
        () => site.events.find((event) => event.type === "speakersChanged" && event.speakers.length === 2),
        "both speakers",
      );
    for (const site of [a, b]) expect(await speakers(site)).toBeTruthy();
  }, 60_000);

  test("data reaches participants on the other worker once, and its sender never", async () => {
    const { a, b } = await start("room");
    await a.join("room", "alice", [...RECEIVING]);
    await b.join("room", "bob", [...RECEIVING]);
    await a.call("sendData", { roomId: "room", from: "alice", payload: "hello" });
    const data = (site: Site) => site.events.filter(({ type }) => type === "data");
    expect(data(b)).toMatchObject([{ from: "alice", payload: "hello", recipients: ["bob"] }]);
    expect(data(a)).toEqual([]);
    await a.call("sendData", { roomId: "room", from: "alice", payload: "for me", to: ["carol"] });
    expect(data(b)).toHaveLength(1);
  }, 60_000);

  test("a sender whose reader on the other worker is slow is told so, and what the reader did not get", async () => {
    const { a, b, clock } = await start("room");
    await a.join("room", "alice", [...RECEIVING]);
    // A client that opens data channels later: what it is sent meanwhile waits for them.
    const bob = await b.join("room", "bob", [...RECEIVING], { data: "packets" });
    await bob.connect([], []);
    const send = () => a.call("sendData", { roomId: "room", from: "alice", payload: "x".repeat(60_000) });
    const told = (type: MediaEvent["type"]) => b.events.filter((event) => event.type === type);
    for (let n = 0; n < 17; n++) await send();
    expect(told("relayedDataBehind")).toEqual([]);
    for (let n = 0; n < 3; n++) await send();
    const reader = { roomId: "room", from: "alice", reader: "bob" };
    expect(told("relayedDataBehind")).toEqual([{ type: "relayedDataBehind", ...reader, bytes: 18 * 60_256 }]);
    clock.aheadMs = 21_000;
    await send();
    const lost = { messages: 20, reason: "slow_reader" } as const;
    await until(() => told("relayedDataDropped").length > 0, "the report");
    expect(told("relayedDataDropped")).toEqual([{ type: "relayedDataDropped", ...reader, ...lost }]);
    expect(told("dataDropped")).toMatchObject([{ identity: "bob", reader: "bob", ...lost }]);
    expect(told("relayedDataBehind")[1]).toMatchObject({ ...reader, bytes: 0 });
    expect(a.events.filter(({ type }) => type === "dataDropped")).toEqual([]);
  }, 60_000);

  test("a link that is lost ends its tracks, and another brings them back", async () => {
    const { a, b, links } = await start("room");
    const { peer, take, trackId } = await camera(a, "room", "alice");
    film(peer, [new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" })], take);
    await announced(a, trackId);
    const far = await viewer(b, "room", "far", { trackId });
    await keepsReceiving(far);
    links.unshare("room", b);
    expect(links.size).toBe(0);
    expect((await b.call("room", { roomId: "room" }))?.participants).toMatchObject([{ subscriptions: [] }]);
    await links.share("room", a, b);
    await b.call("updateSubscriptions", { roomId: "room", participantId: "far", tracks: [{ mid: "0", trackId }] });
    await keepsReceiving(far);
  }, 60_000);
});

test("a viewer two links away from the publisher gets a backup codec, until ten seconds after it has left", async () => {
  const { first, middle, last, clock, close } = await startChain(() => typescriptPath, "room");
  const sending = { kind: "video", direction: "sendonly" } as const;
  const published = { ...CAMERA, trackId: "camera" } as typeof CAMERA;
  const peer = await first.join("room", "alice", [{ ...sending, codec: "VP9" }]);
  await peer.connect([published], []);
  const [main, backup] = [0, 1].map((mid) => new RtpSource({ ssrc: 7 + mid, payloadType: 96, mid: String(mid) }));
  const timer = setInterval(() => {
    if (main) main.timestamp += 900;
    main?.send(peer, Uint8Array.of(0x0c, 1, 2, 3), true);
    if (peer.options.sections.length > 1) backup?.sendFrame(peer, true);
  }, 10);
  try {
    await until(() => first.events.some(({ type }) => type === "trackPublished"), "the track");
    const legacy = await last.join("room", "legacy", [{ kind: "video", direction: "recvonly", codecs: ["VP8"] }]);
    await legacy.connect([], []);
    // The track may still be on its way.
    const subscribed = () =>
      last
        .call("updateSubscriptions", {
          roomId: "room",
          participantId: "legacy",
          tracks: [{ mid: "0", trackId: "camera" }],
        })
        .then(
          () => true,
          () => false,
        );
    while (!(await subscribed())) await Bun.sleep(5);
    const wanted = () => first.events.findLast((event) => event.type === "codecsWanted")?.codecs ?? [];
    await until(() => wanted().length === 1, "the wanted codec");
    peer.options.sections = [...peer.options.sections, { ...sending, codec: "VP8" }];
    await peer.negotiate([published, { ...CAMERA, mid: "1", clientTrackId: "backup", backupOf: "camera" }], []);
    await until(() => legacy.mediaIn > 20, "the backup");
    // What the viewer cannot decode crosses no link any more.
    await until(() => {
      clock.aheadMs += 50;
      return first.engine.relays.streams === 1;
    }, "the track to leave the link");
    expect(wanted()).toEqual(["VP8"]);
    await last.call("removeParticipant", { roomId: "room", participantId: "legacy" });
    await until(() => {
      clock.aheadMs += 50;
      return wanted().length === 0;
    }, "the end of the backup");
    await until(() => first.engine.relays.streams + middle.engine.relays.streams === 0, "the links to be empty");
  } finally {
    clearInterval(timer);
    close();
  }
}, 60_000);
