// needs: gcc libc6-dev libssl-dev
/** Native code that waits at the socket in place of the event loop: when it stops waiting, and what a whole room notices of it. */
import { afterEach, describe, expect, test } from "bun:test";
import { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";
import { Engine } from "../../../src/sfu/engine.ts";
import { openNativePath } from "../../../src/sfu/fast-path/native-path.ts";
import type { NativeReceiveLoop } from "../../../src/sfu/fast-path/native-receive-loop.ts";
import {
  findEventLoop,
  type LoopSource,
  ReceiveLoop,
  type ReceiveLoopParts,
} from "../../../src/sfu/fast-path/receive-loop.ts";
import { SendBatch } from "../../../src/sfu/fast-path/send-batch.ts";
import { StreamTable } from "../../../src/sfu/fast-path/stream-table.ts";
import type { WorkerCall } from "../../../src/sfu/worker-protocol.ts";
import { ALL, CAMERA } from "../room-of-peers.ts";
import { nativeLibraryPath } from "./both-paths.ts";

/** A time so long that the test would fail because of it. */
const LONG_MS = 600_000;
/** Values that REMB can represent. */
const ROOM_BPS = [7_000_000, 8_000_000];
const MAX_RECEIVED = 128;
const library = await nativeLibraryPath();

describe("the receive loop", () => {
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
  const waitAt = (
    socket: { fd: number; isV6: boolean },
    forMs: number,
    eventLoop = findEventLoop(socket.fd) ?? -1,
  ): NativeReceiveLoop => {
    const { receiveLoop } = open();
    const batch = new SendBatch(() => {});
    receiveLoop.wait({ socket, eventLoop, sessions: [], batch, nowMs: 1_000, forMs });
    return receiveLoop;
  };
  const session = { receiver: 1, streams: new StreamTable<object>(), port: 1, address: new Uint32Array(4) };
  const source: LoopSource = {
    session: () => session,
    applyDeferredAccounting() {},
    receiveOpened() {},
    countBytes() {},
  };
  const loopAt = async (parts: Pick<ReceiveLoopParts, "native" | "host"> & Partial<ReceiveLoopParts>) => {
    const { fd, isV6 } = await bind("127.0.0.1");
    const loop = new ReceiveLoop({
      socket: { fd, isV6 },
      batch: new SendBatch(() => {}),
      flush: () => true,
      onDatagram() {},
      onFault() {},
      countIn() {},
      countOut() {},
      ...parts,
    });
    cleanup.push(() => loop.close());
    return loop;
  };

  test.each([
    ["127.0.0.1", "127.0.0.1"],
    ["::1", "::1"],
    ["::", "127.0.0.1"],
    ["::", "::1"],
  ])("on %s, a sender at %s has the address that the socket reports", async (hostname, from) => {
    const received = Promise.withResolvers<{ port: number; address: string }>();
    const here = await bind(hostname, (_data, port, address) => received.resolve({ port, address }));
    const { socket: sender } = await bind(from);
    sender.send("to the event loop", here.socket.port, from);
    const { port, address } = await received.promise;
    expect(port).toBe(sender.port);
    sender.send("to the receive loop", here.socket.port, from);
    const native = waitAt(here, LONG_MS);
    expect([native.received, native.setAside, native.setAsideOutcome(0)]).toEqual([1, 1, 0]);
    expect(Buffer.from(native.datagram(0)).toString()).toBe("to the receive loop");
    expect([native.portOf(0), native.addressOf(0, here.isV6)]).toEqual([port, address]);
  });

  test("ends a wait as soon as the event loop has something else to do", async () => {
    const here = await bind("127.0.0.1");
    const received = Promise.withResolvers<string>();
    const other = await bind("127.0.0.1", (data) => received.resolve(data.toString()));
    here.socket.send("for the event loop", other.socket.port, "127.0.0.1");
    const native = waitAt(here, LONG_MS);
    expect(native.received).toBe(0);
    expect(native.endedAtMs).toBeLessThan(1_000 + LONG_MS);
    expect(await received.promise).toBe("for the event loop");
  });

  test("ends a wait when its time is up", async () => {
    const native = waitAt(await bind("127.0.0.1"), 20, -1);
    expect(native.received).toBe(0);
    expect(native.endedAtMs).toBeGreaterThanOrEqual(1_020);
  });

  test("hands datagrams that are no media of a known session over untouched, as many as it has room for", async () => {
    const [here, other] = [await bind("127.0.0.1"), await bind("127.0.0.1")];
    const datagrams = Array.from({ length: 150 }, (_, i) =>
      Uint8Array.of(i % 2 === 0 ? 0x80 : 0x81, i % 3 === 0 ? 205 : 96, i),
    );
    for (const datagram of datagrams) other.socket.send(datagram, here.socket.port, "127.0.0.1");
    const native = waitAt(here, LONG_MS);
    expect(native.setAside).toBe(native.received);
    expect(native.received).toBeGreaterThan(0);
    expect(native.received).toBeLessThanOrEqual(MAX_RECEIVED);
    for (let i = 0; i < native.setAside; i++) {
      expect([native.setAsideDatagram(i), native.setAsideOutcome(i)]).toEqual([i, 0]);
      expect(native.datagram(i)).toEqual(datagrams[i] as Uint8Array<ArrayBuffer>);
    }
  });

  test("accounts for forwarded packets before it hands over the others, and ticks last", async () => {
    const calls: unknown[] = [];
    let waits = 0;
    const native = {
      runs: 1,
      received: 4,
      setAside: 2,
      isFull: false,
      endedAtMs: 1_050,
      packetsOut: 9,
      bytesOut: 900,
      dropped: 1,
      bytesFrom: () => 200,
      runAtMs: () => 1_040,
      runSession: () => 0,
      run: () => ({}),
      setAsideDatagram: (i: number) => 2 + i,
      setAsideSession: () => 0,
      setAsideOutcome: (i: number) => i * 30,
      datagram: (i: number) => new Uint8Array([128, i]),
      portOf: (i: number) => 5_000 + i,
      addressOf: () => "127.0.0.1",
      wait() {
        if (++waits === 1) return;
        Object.assign(native, { runs: 0, received: 0, setAside: 0, packetsOut: 0, bytesOut: 0, dropped: 0 });
        native.bytesFrom = () => 0;
      },
    };
    const loop = await loopAt({
      native: native as unknown as NativeReceiveLoop,
      host: {
        now: () => 1_000,
        ticker: { dueInMs: () => 50, packetReceived: () => void calls.push("tick") },
        schedule() {},
      },
      onDatagram: (data, port) => void calls.push(["datagram", data[1], port]),
      onFault: (error) => void calls.push(error),
      countIn: (...counts) => void (counts[0] > 0 && calls.push(["in", ...counts])),
      countOut: (...counts) => void (counts[0] > 0 && calls.push(["out", ...counts])),
    });
    loop.mediaReceived(
      {
        ...source,
        applyDeferredAccounting: (_run, _batch, nowMs) => void calls.push(["accounted for", nowMs]),
        receiveOpened: (data, outcome, nowMs) => void calls.push(["opened", data[1], outcome, nowMs]),
        countBytes: (bytes) => void calls.push(["bytes", bytes]),
      },
      1_000,
    );
    loop.run();
    expect(calls).toEqual([
      ["bytes", 200],
      ["in", 2, 200],
      ["out", 9, 900, 1],
      ["accounted for", 1_040],
      ["in", 1, 2],
      ["datagram", 2, 5_002],
      ["in", 1, 2],
      ["opened", 3, 30, 1_050],
      "tick",
    ]);
    expect(waits).toBe(2);
  });

  test("leaves everything to the event loop while something else is urgent, and waits again afterwards", async () => {
    const { receiveLoop: native } = open();
    let nowMs = 1_000;
    let waits = 0;
    native.wait = () => void waits++;
    const loop = await loopAt({
      native,
      host: { now: () => nowMs, ticker: { dueInMs: () => 50, packetReceived() {} }, schedule() {} },
    });
    const receiveAt = (atMs: number) => {
      nowMs = atMs;
      loop.mediaReceived(source, atMs);
      loop.run();
      return waits;
    };
    expect(receiveAt(1_000)).toBe(1);
    loop.stayAwake(1_000, 50);
    expect([receiveAt(1_005), receiveAt(1_049)]).toEqual([1, 1]);
    expect(receiveAt(1_050)).toBe(2);
    loop.stayAwake(1_050);
    expect([receiveAt(1_149), receiveAt(1_150)]).toEqual([2, 3]);
  });

  test("waits no longer once no media comes", async () => {
    const { receiveLoop: native } = open();
    let nowMs = 1_000;
    let waits = 0;
    native.wait = () => void waits++;
    const loop = await loopAt({
      native,
      host: { now: () => nowMs, ticker: { dueInMs: () => 50, packetReceived() {} }, schedule() {} },
    });
    loop.mediaReceived(source, nowMs);
    for (const atMs of [1_000, 1_150, 1_151]) {
      nowMs = atMs;
      loop.run();
    }
    expect(waits).toBe(2);
  });

  test("in a room, every packet arrives once, in order, and is counted, by either path", async () => {
    const path = open();
    const { receiveLoop: native } = path;
    let forwarded = 0;
    const wait = native.wait.bind(native);
    native.wait = (terms) => {
      wait(terms);
      forwarded += native.received - native.setAside;
    };
    const faults: unknown[] = [];
    const engine = await Engine.start(
      {
        hostname: "127.0.0.1",
        port: 0,
        announce: ["127.0.0.1"],
        tcp: false,
        srtpProfiles: ["AEAD_AES_128_GCM"],
      },
      { emit() {}, onFault: (error) => faults.push(error) },
      { path, usesReceiveLoop: true },
    );
    cleanup.push(() => engine.close());
    // biome-ignore lint/suspicious/noExplicitAny: the type of the response depends on the method.
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
    // All of it is sent before the event loop runs, so that the receive loop finds it at once.
    while (forwarded < 100) {
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
