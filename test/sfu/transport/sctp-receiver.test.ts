import { afterEach, describe, expect, test } from "bun:test";
import "../../../src/sfu/werift/reflect.ts";
import { RECEIVE_WINDOW_BYTES, SctpInbound } from "../../../src/sfu/werift/sctp-inbound.ts";
import { SctpReceiver } from "../../../src/sfu/werift/sctp-receiver.ts";
import { createSctp, type DataChannel } from "../../../src/sfu/werift/werift-hooks.ts";
import {
  chunk,
  cookieOf,
  DCEP,
  data,
  FIRST,
  forwardTsn,
  heartbeat,
  init,
  openChannel,
  packet,
  pairs,
  parameter,
  SCTP,
  sack,
  UNORDERED,
} from "./sctp-packets.ts";

const LAST = 1_000;
const TAG = 7;
const SENT = 5_000;

/** An association with a peer whose first TSN is after LAST, and which has sent 100 chunks that were not acknowledged. */
function associate() {
  const control: number[] = [];
  const sent: Buffer[] = [];
  const messages: string[] = [];
  const association = {
    isServer: true,
    isStopped: false,
    associationState: 1,
    localVerificationTag: TAG,
    localTsn: SENT + 101,
    reconfigResponseSeq: LAST,
    advertisedRwnd: 0,
    receive: (stream: number, _protocol: number, content: Buffer) => void messages.push(`${stream}:${content}`),
    async receiveChunk({ type, params }: { type: number; params?: [number, Buffer][] }) {
      control.push(type);
      if (type === SCTP.reconfig) association.reconfigResponseSeq = params?.[0]?.[1].readUInt32BE(0) ?? 0;
    },
    sendChunk: async ({ bytes }: { readonly bytes: Buffer }) => void sent.push(bytes),
  };
  const receiver = new SctpReceiver(association);
  receiver.receive(packet(0, init(LAST + 1)));
  association.associationState = 4;
  control.length = 0;
  const receive = (...chunks: Buffer[]) => receiver.receive(packet(TAG, ...chunks));
  const text = (tsn: number, content: string, rest: Parameters<typeof data>[1] = {}) =>
    receive(data(tsn, { ...rest, content: Buffer.from(content) }));
  return { receiver, receive, text, control, sent, messages };
}

const resetOf = (request: number, ...streams: number[]) => {
  const body = Buffer.alloc(16 + 2 * streams.length);
  parameter(body.length).copy(body);
  body.writeUInt32BE(request, 4);
  for (const [i, stream] of streams.entries()) body.writeUInt16BE(stream, 16 + 2 * i);
  return chunk(SCTP.reconfig, body);
};
const many = (count: number, of: () => Buffer) => Buffer.concat(Array.from({ length: count }, of));

/** These make werift read for ever, count for minutes, answer many times or keep data without a limit. */
const HOSTILE: Record<string, Buffer> = {
  "a chunk of no length": chunk(11, Buffer.alloc(0), 0),
  "a chunk shorter than its head": chunk(10, Buffer.alloc(4), 3),
  "a chunk longer than the packet": chunk(0, Buffer.alloc(16), 60_000),
  "a parameter of no length, in RE-CONFIG": chunk(SCTP.reconfig, parameter(0)),
  "a parameter longer than its chunk": chunk(SCTP.reconfig, parameter(9)),
  "three parameters in RE-CONFIG": chunk(
    SCTP.reconfig,
    many(3, () => parameter(4)),
  ),
  "gaps that overlap": sack(SENT, [1, 50], [2, 60]),
  "a gap that ends before it starts": sack(SENT, [9, 8]),
  "a gap beyond what was sent": sack(SENT, [2, 101]),
  "a gap of 65,535 chunks": sack(SENT, [1, 65_535]),
  "an acknowledgement of what was not sent": sack(SENT + 101),
  "more gaps than there are bytes": chunk(SCTP.sack, Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0])),
  "data without its head": chunk(SCTP.data, Buffer.alloc(11)),
  "data without content": data(LAST + 1, { content: Buffer.alloc(0) }),
  "two heartbeats": many(2, () => heartbeat(1, 2)),
  "two FORWARD-TSNs": many(2, () => forwardTsn(LAST + 1)),
  "65 chunks": many(65, () => data(LAST + 1, { content: Buffer.alloc(1) })),
  "an INIT among others": init(LAST + 1),
  "an INIT ACK without an INIT": chunk(SCTP.initAck, init(9).subarray(4)),
  "more bytes than any path carries": data(LAST + 1, { content: Buffer.alloc(3_000) }),
};

for (const [name, hostile] of Object.entries(HOSTILE)) {
  test(`SCTP with ${name} is dropped, alone and behind a sound chunk`, () => {
    const { receiver, receive, control, sent, messages } = associate();
    receive(hostile);
    receive(sack(SENT + 1), hostile);
    expect([control, sent, messages, receiver.waiting]).toEqual([[], [], [], { chunks: 0, bytes: 0, streams: 0 }]);
  });
}

test("an INIT in an association that exists is dropped, and so are parameters without end in the first one", () => {
  const { receiver, control, text, messages } = associate();
  text(LAST + 1, "before");
  receiver.receive(packet(0, init(77)));
  expect(control).toEqual([]);
  text(LAST + 2, "after", { sequence: 1 });
  expect(messages).toEqual(["0:before", "0:after"]);
  const fresh = new SctpReceiver({ isServer: true, isStopped: false, associationState: 1 } as never);
  for (const parameters of [parameter(0), parameter(3), many(17, () => parameter(4))]) {
    fresh.receive(packet(0, init(1, parameters)));
    expect(fresh.waiting).toBeNull();
  }
});

test("everything that browsers send is accepted, up to each limit", () => {
  const { receive, control, sent, messages } = associate();
  receive(sack(SENT, [2, 5], [7, 100]), data(LAST + 1), heartbeat(1, 2, 3));
  receive(sack(SENT + 100), forwardTsn(LAST + 2, [3, 0]));
  receive(resetOf(LAST + 1, 1, 2));
  receive(...Array.from({ length: 64 }, (_, i) => data(LAST + 3 + i, { sequence: i + 1, content: Buffer.from("x") })));
  receive(chunk(200, Buffer.alloc(8)), chunk(SCTP.error, Buffer.alloc(4)));
  expect(control).toEqual([SCTP.sack, SCTP.sack, SCTP.reconfig]);
  expect(messages.length).toBe(65);
  expect(sent.map((bytes) => bytes[0])).toEqual([SCTP.heartbeatAck, SCTP.sack, SCTP.sack, SCTP.sack]);
  expect(sent[0]?.toString("hex")).toBe("0500000b0001000701020300");
  expect(sent.at(-1)?.readUInt32BE(4)).toBe(LAST + 66);
});

describe("messages", () => {
  test("are put together from fragments in any order, and delivered in the order of their stream", () => {
    const { text, messages, receiver } = associate();
    text(LAST + 5, "c", { sequence: 1, flags: 1 });
    text(LAST + 1, "A", { stream: 1 });
    text(LAST + 3, "a", { sequence: 1, flags: FIRST });
    text(LAST + 6, "later", { sequence: 2 });
    text(LAST + 4, "b", { sequence: 1, flags: 0 });
    expect(messages).toEqual(["1:A"]);
    text(LAST + 2, "first", { sequence: 0 });
    expect(messages).toEqual(["1:A", "0:first", "0:abc", "0:later"]);
    expect(receiver.waiting).toMatchObject({ chunks: 0, bytes: 0 });
  });

  test("are delivered while TSNs and sequence numbers wrap around", () => {
    const messages: string[] = [];
    const inbound = new SctpInbound(2 ** 32 - 3, (_stream, _protocol, content) => void messages.push(String(content)));
    const add = (tsn: number, sequence: number, content: string, flags = 3) =>
      inbound.add({
        flags,
        tsn: tsn >>> 0,
        streamId: 0,
        streamSequence: sequence & 0xffff,
        protocol: 51,
        userData: Buffer.from(content),
      });
    inbound.skip(2 ** 32 - 3, [[0, 32_766]]);
    inbound.skip(2 ** 32 - 2, [[0, 65_533]]);
    add(1, 0, "third");
    add(0, 65_535, "d", 1);
    expect(inbound.acknowledge().subarray(16, 20).toString("hex")).toBe("00020003");
    add(-1, 65_535, "secon", FIRST);
    expect(messages).toEqual([]);
    inbound.skip(2 ** 32 - 1, []);
    inbound.skip(2, [[0, 65_534]]);
    expect(messages).toEqual(["second", "third"]);
    expect([inbound.lastTsn, inbound.waiting.chunks]).toEqual([2, 0]);
  });

  test("fragments of different messages are never joined", () => {
    const { text, messages } = associate();
    text(LAST + 1, "a", { flags: FIRST, stream: 1 });
    text(LAST + 2, "b", { flags: 1, stream: 2 });
    text(LAST + 3, "c", { flags: FIRST | UNORDERED });
    text(LAST + 4, "d", { flags: 1 });
    text(LAST + 5, "e", { flags: FIRST, sequence: 3 });
    text(LAST + 6, "f", { flags: 1, sequence: 4 });
    expect(messages).toEqual([]);
  });

  test("are numbered from 0 again after their sender resets the stream, even if the reset is repeated", () => {
    const { text, receive, messages, receiver } = associate();
    text(LAST + 1, "0");
    text(LAST + 2, "9", { sequence: 9 });
    expect(receiver.waiting?.chunks).toBe(1);
    receive(resetOf(LAST + 1, 0));
    expect(receiver.waiting).toEqual({ chunks: 0, bytes: 0, streams: 0 });
    text(LAST + 3, "0");
    receive(resetOf(LAST + 1, 0));
    text(LAST + 4, "1", { sequence: 1 });
    expect(messages).toEqual(["0:0", "0:0", "0:1"]);
  });
});

/** Counts how often the fields of chunks are read. */
function countedChunks() {
  let reads = 0;
  const inbound = new SctpInbound(1, () => {});
  const add = (tsn: number, flags: number, streamSequence = 0) =>
    inbound.add(
      new Proxy(
        { tsn, flags, streamId: tsn % 1_000, streamSequence, protocol: 51, userData: Buffer.alloc(40) },
        {
          get(target, name) {
            reads++;
            return Reflect.get(target, name);
          },
        },
      ),
    );
  const readsOf = (work: () => void) => {
    reads = 0;
    work();
    return reads;
  };
  return { inbound, add, readsOf };
}

describe("the work for a chunk does not grow with what waits", () => {
  test("unordered fragments that never complete a message add no work", () => {
    const { inbound, add, readsOf } = countedChunks();
    const first = readsOf(() => add(1, UNORDERED));
    for (let tsn = 2; tsn <= 1_000; tsn++) add(tsn, UNORDERED);
    expect(inbound.waiting.chunks).toBe(1_000);
    expect(readsOf(() => add(1_001, UNORDERED))).toBeLessThan(3 * first);
  });

  test("a message of a thousand fragments takes no more work when they arrive from the last to the first", () => {
    const inbound = new SctpInbound(1, () => {});
    let reads = 0;
    const chunks = Array.from({ length: 1_000 }, (_, i) => ({
      get tsn() {
        reads++;
        return i + 1;
      },
      flags: i === 0 ? FIRST : i === 999 ? 1 : 0,
      streamId: 0,
      streamSequence: 0,
      protocol: 51,
      userData: Buffer.alloc(40),
    }));
    for (const one of chunks.toReversed()) inbound.add(one);
    expect(inbound.waiting.chunks).toBe(0);
    expect(reads).toBeLessThan(20 * chunks.length);
  });

  test("ordered messages that wait for one that never arrives add no work", () => {
    const { inbound, add, readsOf } = countedChunks();
    const first = readsOf(() => add(2, 3, 1));
    for (let tsn = 3; tsn <= 1_000; tsn++) add(tsn, 3, tsn);
    expect(inbound.waiting.chunks).toBe(999);
    expect(readsOf(() => add(1_001, 3, 1_001))).toBeLessThan(3 * first);
  });

  test("a FORWARD-TSN that names every possible stream adds no work", () => {
    const { inbound, add, readsOf } = countedChunks();
    const first = readsOf(() => add(1, UNORDERED));
    for (let stream = 0, tsn = 2; stream < 65_536; stream += 512, tsn++)
      inbound.skip(
        tsn,
        Array.from({ length: 512 }, (_, i) => [stream + i, 5] as const),
      );
    expect(inbound.waiting.streams).toBeLessThanOrEqual(1_024);
    expect(readsOf(() => add(inbound.lastTsn + 1, UNORDERED))).toBeLessThan(3 * first);
  });
});

test("the number and the size of waiting chunks are limited, whatever they wait for", () => {
  for (const flags of [UNORDERED, 0, FIRST, 3]) {
    for (const size of [1, 1_100]) {
      const { receiver, receive, sent } = associate();
      for (let i = 1; i <= 4_000; i++) receive(data(LAST + i, { flags, sequence: i, content: Buffer.alloc(size) }));
      const waiting = receiver.waiting ?? { chunks: Number.POSITIVE_INFINITY, bytes: Number.POSITIVE_INFINITY };
      expect(waiting.chunks).toBeLessThanOrEqual(2_048);
      expect(waiting.bytes).toBeLessThan(RECEIVE_WINDOW_BYTES + 1_100);
      // The peer is told that the receive window is full.
      expect(sent.at(-1)?.readUInt32BE(8)).toBe(0);
    }
  }
});

test("a chunk far ahead of the others and a jump of the TSN further than the window are not taken", () => {
  const { receive, sent } = associate();
  receive(data(LAST + 1_025));
  receive(forwardTsn(LAST + RECEIVE_WINDOW_BYTES + 1));
  expect(sent.map((bytes) => [bytes.readUInt32BE(4), bytes.readUInt16BE(12)])).toEqual([
    [LAST, 0],
    [LAST, 0],
  ]);
  receive(data(LAST + 1_024));
  receive(forwardTsn(LAST + RECEIVE_WINDOW_BYTES));
  expect(sent.at(-1)?.readUInt32BE(4)).toBe(LAST + RECEIVE_WINDOW_BYTES);
});

test("an acknowledgement names 20 gaps and 20 repeated chunks at most", () => {
  const { receive, sent } = associate();
  for (let i = 0; i < 60; i++) receive(data(LAST + 2 + 2 * i));
  receive(...Array.from({ length: 60 }, () => data(LAST)));
  expect(sent.at(-1)?.length).toBe(16 + 4 * 40);
});

describe("werift's association behind it", () => {
  const cleanup: (() => void)[] = [];
  afterEach(() => {
    for (const close of cleanup.splice(0)) close();
  });

  async function established() {
    const sent: Buffer[] = [];
    const channels: DataChannel[] = [];
    const rejections: unknown[] = [];
    const engine = createSctp(65_536, 5000, {
      send: async (bytes) => void sent.push(bytes),
      onChannel: (channel) => void channels.push(channel),
      onMessage: () => {},
      onClosed: () => {},
    });
    const note = (reason: unknown) => void rejections.push(reason);
    process.on("unhandledRejection", note);
    cleanup.push(
      () => engine.close(),
      () => void process.off("unhandledRejection", note),
    );
    const settled = () => new Promise((done) => setImmediate(done));
    const answer = async (type: number) => {
      while (!sent.some((bytes) => bytes[12] === type)) await settled();
      return sent.find((bytes) => bytes[12] === type) ?? Buffer.alloc(0);
    };
    engine.deliver(packet(0, init(LAST + 1)));
    const initAck = await answer(SCTP.initAck);
    const tag = initAck.readUInt32BE(16);
    engine.deliver(packet(tag, chunk(SCTP.cookieEcho, cookieOf(initAck))));
    await answer(SCTP.cookieAck);
    const receive = (...chunks: Buffer[]) => engine.deliver(packet(tag, ...chunks));
    return { receive, answer, settled, sent, channels, rejections };
  }

  test("answers as before after everything hostile was sent to it", async () => {
    const { receive, answer } = await established();
    for (const hostile of Object.values(HOSTILE)) receive(hostile);
    receive(heartbeat(1, 2, 3, 4));
    expect((await answer(SCTP.heartbeatAck)).subarray(16, 24).toString("hex")).toBe("0001000801020304");
  });

  test("opens a few channels and acknowledges each once, although the client ignores the acknowledgements", async () => {
    const { receive, settled, sent, channels } = await established();
    for (let i = 0; i < 1_000; i++) {
      receive(data(LAST + 1 + i, { stream: i % 100, protocol: DCEP, content: openChannel(`channel ${i}`), flags: 7 }));
      await settled();
    }
    receive(data(LAST + 1_001, { protocol: DCEP, content: openChannel("x".repeat(1_100)), flags: 7, stream: 900 }));
    expect(channels.length).toBe(16);
    expect(sent.filter((bytes) => bytes[12] === SCTP.data).length).toBeLessThanOrEqual(16);
  });

  test("survives messages in unknown formats and acknowledgements of channels that were never opened", async () => {
    const { receive, settled, rejections, channels } = await established();
    receive(data(LAST + 1, { protocol: DCEP, content: openChannel("reliable") }));
    await settled();
    expect(channels.map(({ label }) => label)).toEqual(["reliable"]);
    receive(data(LAST + 2, { protocol: 99, sequence: 1 }));
    receive(data(LAST + 3, { protocol: DCEP, stream: 5, content: Buffer.from([2]) }));
    receive(chunk(SCTP.reconfig, Buffer.concat([parameter(5), pairs([0, 0])])));
    await settled();
    await settled();
    expect(rejections).toEqual([]);
  });
});
