// needs: gcc libc6-dev libssl-dev
/** Native code that waits at the socket in the place of the loop: when it stops waiting, and what a whole room notices of it. */
import { afterEach, describe, expect, test } from "bun:test";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { Engine } from "../../../src/sfu/engine.ts";
import { openNativePath } from "../../../src/sfu/fast-path/native-path.ts";
import { LaneTable } from "../../../src/sfu/forwarding/lanes.ts";
import { SendBatch } from "../../../src/sfu/forwarding/send-batch.ts";
import type { Watch } from "../../../src/sfu/forwarding/watch.ts";
import { loopOf, MediaWatch } from "../../../src/sfu/transport/media-watch.ts";
import type { WorkerCall } from "../../../src/sfu/worker-protocol.ts";
import { nativeLibraryPath } from "../packet-paths.ts";
import { ALL, CAMERA } from "../room-of-peers.ts";

/** So long that a test would fail over it. */
const LONG_MS = 600_000;
/** As REMB can tell it. */
const ROOM_BPS = [7_000_000, 8_000_000];
const library = await nativeLibraryPath();

describe("a watch", () => {
  const cleanup: (() => unknown)[] = [];
  afterEach(async () => {
    for (const close of cleanup.splice(0).reverse()) await close();
  });

  const open = () => {
    const path = openNativePath(library);
    cleanup.push(() => path.close());
    return path;
  };
  const bind = async (hostname: string, onData: (data: Buffer, port: number, address: string) => void = () => {}) => {
    const data = (_socket: unknown, bytes: Buffer, port: number, address: string) => onData(bytes, port, address);
    const socket = await Bun.udpSocket({ hostname, port: 0, binaryType: "buffer", socket: { data, error() {} } });
    cleanup.push(() => socket.close());
    return { socket, fd: (socket as unknown as { fd: number }).fd, isV6: socket.address.family === "IPv6" };
  };
  const watch = (path: ReturnType<typeof open>, socket: { fd: number; isV6: boolean }, forMs: number) => {
    const terms = { socket, loop: loopOf(socket.fd) ?? -1, sessions: [], batch: new SendBatch(() => {}) };
    path.watch.wait({ ...terms, nowMs: 1_000, forMs, patienceMs: 50 });
    return path.watch;
  };

  test.each([
    ["127.0.0.1", "127.0.0.1"],
    ["::1", "::1"],
    ["::", "127.0.0.1"],
    ["::", "::1"],
  ])("at %s knows who sent from %s by the name that the socket has for it", async (hostname, from) => {
    const path = open();
    const told = Promise.withResolvers<{ port: number; address: string }>();
    const here = await bind(hostname, (_data, port, address) => told.resolve({ port, address }));
    const { socket: sender } = await bind(from);
    sender.send("to the loop", here.socket.port, from);
    const { port, address } = await told.promise;
    expect(port).toBe(sender.port);
    sender.send("to the watch", here.socket.port, from);
    const found = watch(path, here, LONG_MS);
    expect([found.received, found.taken]).toEqual([1, 0]);
    expect(Buffer.from(found.datagram(0)).toString()).toBe("to the watch");
    expect([found.portOf(0), found.addressOf(0, here.isV6)]).toEqual([port, address]);
  });

  test("is over as soon as the loop has something else to do, and when its time is up", async () => {
    const path = open();
    const here = await bind("127.0.0.1");
    const heard = Promise.withResolvers<string>();
    const other = await bind("127.0.0.1", (data) => heard.resolve(data.toString()));
    here.socket.send("for the loop", other.socket.port, "127.0.0.1");
    const found = watch(path, here, LONG_MS);
    expect(found.received).toBe(0);
    expect(found.endedAtMs).toBeLessThan(1_000 + LONG_MS);
    expect(await heard.promise).toBe("for the loop");
  });

  test("makes up for what was forwarded, then reads reports as of when they came, then the rest", async () => {
    const { fd, isV6 } = await bind("127.0.0.1");
    const told: unknown[] = [];
    const found = {
      ...{ runs: 1, taken: 4, reports: 2, received: 6, outcome: 0, restSession: 0, endedAtMs: 1_050 },
      ...{ sent: { packets: 9, bytes: 900, dropped: 0 }, wait() {}, bytesFrom: () => 200, sessionOf: () => 0 },
      ...{ cameAtMs: () => 1_040, run: () => ({}), reportAt: (report: number) => 1 + report * 2 },
      ...{ reportSession: () => 0, reportOutcome: (report: number) => report * 30 },
      report: (report: number) => Buffer.from([128, 1 + report * 2]),
      ...{ reportCameAtMs: (report: number) => 1_010 + report, datagram: (at: number) => new Uint8Array([128, at]) },
      ...{ portOf: (at: number) => 5_000 + at, addressOf: () => "127.0.0.1" },
    } as unknown as Watch;
    const media = new MediaWatch({
      ...{ watch: found, socket: { fd, isV6 }, batch: new SendBatch(() => {}) },
      host: {
        now: () => 1_000,
        pace: { dueInMs: () => 50, packetCame: () => void told.push("tick") },
        later: setImmediate,
      },
      onDatagram: (data, port, _address, cameAtMs) => void told.push([data[1], port, cameAtMs]),
      counted: (...counts) => void told.push(counts),
      ...{ onFault: (error) => void told.push(error), settle: () => true },
    });
    cleanup.push(() => media.close());
    const session = { receiver: 1, lanes: new LaneTable<object>(), port: 1, address: new Uint32Array(4) };
    const makeUp = (_run: unknown, _take: unknown, nowMs: number) => void told.push(["made up", nowMs]);
    const opened = (data: Buffer, outcome: number, cameAtMs: number) =>
      void told.push(["opened", data[1], outcome, cameAtMs]);
    media.usual({ watched: () => session, counted() {}, makeUp, opened }, 1_000);
    media.keep();
    expect(told).toEqual([
      [2, 200, found.sent],
      ["made up", 1_040],
      ...[
        [1, 2],
        [1, 5_001, 1_010],
      ],
      ...[
        [1, 2],
        ["opened", 3, 30, 1_011],
      ],
      ...[
        [1, 2],
        [4, 5_004, undefined],
      ],
      ...[
        [1, 2],
        [5, 5_005, undefined],
      ],
      "tick",
    ]);
  });

  test("leaves the loop its turns while something else is in a hurry, and takes its place again afterwards", async () => {
    const path = open();
    const { fd, isV6 } = await bind("127.0.0.1");
    let nowMs = 1_000;
    let waits = 0;
    const patience: number[] = [];
    path.watch.wait = ({ patienceMs }) => {
      waits++;
      patience.push(patienceMs);
    };
    const media = new MediaWatch({
      ...{ watch: path.watch, socket: { fd, isV6 }, batch: new SendBatch(() => {}) },
      host: { now: () => nowMs, pace: { dueInMs: () => 50, packetCame() {} }, later: setImmediate },
      ...{ onDatagram() {}, onFault() {}, settle: () => true, counted() {} },
    });
    cleanup.push(() => media.close());
    const session = { receiver: 1, lanes: new LaneTable<object>(), port: 1, address: new Uint32Array(4) };
    const intake = { watched: () => session, counted() {}, makeUp() {}, opened() {} };
    const cameAt = (atMs: number) => {
      nowMs = atMs;
      media.usual(intake, atMs);
      media.keep();
      return waits;
    };
    expect(cameAt(1_000)).toBe(1);
    media.awake(1_000, 50);
    expect([cameAt(1_005), cameAt(1_049)]).toEqual([1, 1]);
    expect(cameAt(1_050)).toBe(2);
    media.awake(1_050);
    expect([cameAt(1_149), cameAt(1_150)]).toEqual([2, 3]);
    // Reports are read as they come while somebody has less than it wants.
    media.impatient(1_150);
    for (const atMs of [1_151, 2_149, 2_150]) cameAt(atMs);
    expect(patience).toEqual([50, 50, 50, 0, 0, 50]);
  });

  test("in a room: every packet arrives once and in order, and is counted, whoever forwarded it", async () => {
    const path = open();
    let forwarded = 0;
    let laidAside = 0;
    const { wait } = path.watch;
    path.watch.wait = (terms) => {
      wait(terms);
      forwarded += path.watch.taken - path.watch.reports;
      laidAside += path.watch.reports;
    };
    const faults: unknown[] = [];
    const engine = await Engine.start(
      {
        ...{ hostname: "127.0.0.1", port: 0, announce: ["127.0.0.1"], tcp: false },
        srtpProfiles: ["AEAD_AES_128_GCM"],
      },
      { emit() {}, onFault: (error) => faults.push(error) },
      { path, watches: true },
    );
    cleanup.push(() => engine.close());
    // biome-ignore lint/suspicious/noExplicitAny: what comes back depends on the method.
    const call = async (method: string, request: object): Promise<any> =>
      engine.call({ type: "call", id: 0, method, request } as WorkerCall);
    const ref = { roomId: "room" };
    const node = { negotiate: (request: object) => call("negotiate", request) };
    await call("openRoom", ref);
    const join = async (participantId: string, direction: "sendonly" | "recvonly", seen: number[] = []) => {
      await call("addParticipant", { ...ref, participantId, identity: participantId, permissions: ALL });
      const sections = [{ kind: "video" as const, direction }];
      const onRtp = ({ sequenceNumber }: { sequenceNumber: number }) => void seen.push(sequenceNumber);
      const peer = await RtcPeer.create({ node, ...ref, participantId, sections, onRtp });
      cleanup.push(() => peer.close());
      return peer;
    };
    const publisher = await join("publisher", "sendonly");
    await publisher.connect([CAMERA], []);
    const source = new RtpSource({ ssrc: 7, payloadType: 96, mid: "0" });
    source.sendFrame(publisher, true);
    const tracks = async () => (await call("room", ref)).participants.flatMap((p: { tracks: object[] }) => p.tracks);
    while ((await tracks()).length === 0) await Bun.sleep(5);
    const [{ id: trackId }] = await tracks();
    const seen: number[][] = [[], []];
    const viewers: RtcPeer[] = [];
    for (const [i, numbers] of seen.entries()) {
      const viewer = await join(`viewer-${i}`, "recvonly", numbers);
      await viewer.connect([], [{ mid: "0", trackId, layer: "high" }]);
      viewers.push(viewer);
    }
    const before = (await call("load", {})).packetsIn;
    let sent = 0;
    let reported = 0;
    // Sent before the loop has its turn: what a watch finds at once is its own.
    while (forwarded < 100 || laidAside < 20) {
      source.sendFrame(publisher, sent % 100 === 0, 10);
      for (const [i, viewer] of viewers.entries()) viewer.sendRemb(ROOM_BPS[i] ?? 0);
      sent += 10;
      reported += viewers.length;
      await new Promise(setImmediate);
    }
    while (seen.some((numbers) => numbers.length < sent)) await Bun.sleep(5);
    for (const numbers of seen)
      expect(numbers.slice(1).every((number, i) => number === (((numbers[i] as number) + 1) & 0xffff))).toBe(true);
    while ((await call("load", {})).packetsIn - before < sent + reported) await Bun.sleep(5);
    const available = async (): Promise<unknown[]> =>
      (await call("room", ref)).participants.map(
        (one: { transport: { availableOutBps: number } }) => one.transport.availableOutBps,
      );
    expect(await available()).toEqual([null, ...ROOM_BPS]);
    expect(Object.values((await call("load", {})).refused).filter((count) => count !== 0)).toEqual([]);
    expect(faults).toEqual([]);
  }, 120_000);
});
