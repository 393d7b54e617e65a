import { expect, test } from "bun:test";
import "../../../src/sfu/werift/reflect.ts";
import { isSoundSctp } from "../../../src/sfu/werift/sctp-gate.ts";
import { createSctp } from "../../../src/sfu/werift/werift-hooks.ts";

const LAST = 1_000;
const OPEN = { lastReceivedTsn: LAST, advertisedRwnd: 1_000_000 };

function crc32c(bytes: Buffer): number {
  let crc = 0xffffffff;
  for (const byte of bytes) {
    crc ^= byte;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
  }
  return (crc ^ 0xffffffff) >>> 0;
}

function chunk(type: number, body: Buffer, length = body.length + 4): Buffer {
  const out = Buffer.alloc((body.length + 4 + 3) & ~3);
  out.writeUInt8(type, 0);
  out.writeUInt8(type === 0 ? 3 : 0, 1);
  out.writeUInt16BE(length, 2);
  body.copy(out, 4);
  return out;
}

function packet(tag: number, ...chunks: Buffer[]): Buffer {
  const header = Buffer.alloc(12);
  header.writeUInt16BE(5000, 0);
  header.writeUInt16BE(5000, 2);
  header.writeUInt32BE(tag, 4);
  const out = Buffer.concat([header, ...chunks]);
  out.writeUInt32LE(crc32c(out), 8);
  return out;
}

function data(tsn: number, stream = 0): Buffer {
  const body = Buffer.alloc(16);
  body.writeUInt32BE(tsn >>> 0, 0);
  body.writeUInt16BE(stream, 4);
  body.writeUInt32BE(51, 8);
  return chunk(0, body);
}

function sack(...gaps: [number, number][]): Buffer {
  const body = Buffer.alloc(12 + 4 * gaps.length);
  body.writeUInt16BE(gaps.length, 8);
  for (const [i, [start, end]] of gaps.entries()) {
    body.writeUInt16BE(start, 12 + 4 * i);
    body.writeUInt16BE(end, 14 + 4 * i);
  }
  return chunk(3, body);
}

const parameter = (length: number) => Buffer.from([0, 13, length >> 8, length & 255]);
const init = Buffer.alloc(16);
init.writeUInt32BE(1, 0);
init.writeUInt32BE(100_000, 4);
init.writeUInt16BE(1024, 8);
init.writeUInt16BE(1024, 10);
init.writeUInt32BE(LAST + 1, 12);

/** What makes werift read for ever, count for minutes, or hold without a bound: one such packet ended every call of its worker. */
const DEADLY: Record<string, Buffer> = {
  "a chunk of no length": chunk(11, Buffer.alloc(0), 0),
  "a chunk shorter than its head": chunk(10, Buffer.alloc(4), 3),
  "a chunk longer than the packet": chunk(0, Buffer.alloc(16), 60_000),
  "a parameter of no length, in RE-CONFIG": chunk(130, parameter(0)),
  "the same in INIT": chunk(1, Buffer.concat([init, parameter(0)])),
  "the same in INIT ACK": chunk(2, Buffer.concat([init, parameter(3)])),
  "the same in ERROR": chunk(9, parameter(0)),
  "the same in ABORT": chunk(6, parameter(0)),
  "the same in HEARTBEAT": chunk(4, parameter(0)),
  "a parameter longer than its chunk": chunk(130, parameter(9)),
  "gaps that overlap a thousand times": sack(...Array.from({ length: 1_000 }, (): [number, number] => [1, 65_535])),
  "a gap that ends before it starts": sack([9, 8]),
  "more gaps than there are bytes": chunk(3, Buffer.from([0, 0, 0, 0, 0, 0, 0, 0, 255, 255, 0, 0])),
  "data far ahead of all others": data(LAST + 1_025),
  "data on a stream nobody opens": data(LAST + 1, 1_024),
  "data without its head": chunk(0, Buffer.alloc(11)),
};

for (const [name, deadly] of Object.entries(DEADLY)) {
  test(`[media] SCTP with ${name} is dropped, alone and behind a sound chunk`, () => {
    expect(isSoundSctp(packet(7, deadly), OPEN)).toBe(false);
    expect(isSoundSctp(packet(7, sack([2, 3]), deadly), OPEN)).toBe(false);
  });
}

test("[media] what browsers send passes, at the edges of every bound", () => {
  const sound = [
    ...[data(LAST + 1), data(LAST + 1_024), data(LAST), data(LAST - 5), data(LAST + 1, 1_023)],
    ...[sack(), sack([1, 1]), sack([2, 5], [7, 65_535])],
    ...[chunk(1, init), chunk(1, Buffer.concat([init, parameter(4)])), chunk(11, Buffer.alloc(0))],
    ...[chunk(130, parameter(4)), chunk(4, Buffer.from([0, 1, 0, 7, 1, 2, 3])), chunk(192, Buffer.alloc(8))],
  ];
  for (const one of sound)
    expect([one.toString("hex"), isSoundSctp(packet(7, one), OPEN)]).toEqual([one.toString("hex"), true]);
  expect(isSoundSctp(packet(7, data(3)), { lastReceivedTsn: 0xffffffff, advertisedRwnd: 1 })).toBe(true);
});

test("[media] data is taken neither before the association nor past what it can hold", () => {
  expect(isSoundSctp(packet(7, data(LAST + 1)), { advertisedRwnd: 1_000 })).toBe(false);
  expect(isSoundSctp(packet(7, data(LAST + 1)), { ...OPEN, advertisedRwnd: 0 })).toBe(false);
});

test("[media] an association answers as before after everything deadly was sent to it", async () => {
  const sent: Buffer[] = [];
  const nothing = () => {};
  const engine = createSctp(65_536, 5000, {
    send: async (bytes) => void sent.push(bytes),
    ...{ onChannel: nothing, onMessage: nothing, onClosed: nothing },
  });
  const answer = async (type: number) => {
    while (!sent.some((bytes) => bytes[12] === type)) await new Promise((done) => setImmediate(done));
    return sent.find((bytes) => bytes[12] === type) ?? Buffer.alloc(0);
  };
  engine.deliver(packet(0, chunk(1, init)));
  const tag = (await answer(2)).readUInt32BE(16);
  for (const deadly of Object.values(DEADLY)) engine.deliver(packet(deadly[0] === 1 ? 0 : tag, deadly));
  engine.deliver(packet(tag, chunk(4, Buffer.from([0, 1, 0, 8, 1, 2, 3, 4]))));
  expect((await answer(5)).subarray(16, 24).toString("hex")).toBe("0001000801020304");
  engine.close();
});
