import { expect, test } from "bun:test";
import fc from "fast-check";
import { MAX_MESSAGE_BYTES, readChannelData, TurnStream, writeChannelData } from "../../../src/network/turn/framing.ts";
import { ATTRIBUTE, newTransaction, readMessage, writeMessage } from "../../../src/network/turn/message.ts";

const stun = writeMessage(3, newTransaction(), [[ATTRIBUTE.username, Buffer.from("seven")]], { key: null });
const frame = Buffer.alloc(64);
const channel = frame.subarray(0, writeChannelData(frame, 0x4001, Buffer.from("12345"), true));

test("messages are complete however the bytes are split", () => {
  const wire = Buffer.concat([stun, channel, stun, channel]);
  for (let size = 1; size <= wire.length; size++) {
    const stream = new TurnStream();
    const messages: Buffer[] = [];
    for (let at = 0; at < wire.length; at += size) {
      const chunk = Buffer.from(wire.subarray(at, at + size));
      expect(stream.push(chunk, (message) => void messages.push(Buffer.from(message)))).toBe(true);
      chunk.fill(0xff);
    }
    expect(messages).toEqual([stun, channel, stun, channel]);
  }
});

test.each([
  ["HTTP", Buffer.from("GET / HTTP/1.1")],
  ["RTP", Buffer.from([0x80, 0, 0, 0])],
  ["a STUN length that is no multiple of four", Buffer.from([0, 1, 0, 3])],
  ["a length beyond the limit", Buffer.from([0x40, 0, (MAX_MESSAGE_BYTES >> 8) & 255, MAX_MESSAGE_BYTES & 255])],
])("%s is no TURN", (_name, bytes) => {
  expect(new TurnStream().push(bytes, () => {})).toBe(false);
});

test("arbitrary bytes are split into messages of at least 4 bytes within the size limit, and nothing throws", () => {
  const changes = fc.array(fc.tuple(fc.nat(200), fc.nat(255)), { maxLength: 6 });
  const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 8 });
  fc.assert(
    fc.property(changes, sizes, (changed, pieceBytes) => {
      const wire = Buffer.concat([stun, channel, stun, channel, stun]);
      for (const [at, value] of changed) wire[at % wire.length] = value;
      const stream = new TurnStream();
      const messages: Buffer[] = [];
      let at = 0;
      for (let piece = 0; at < wire.length; piece++) {
        const end = at + (pieceBytes[piece % pieceBytes.length] ?? 1);
        if (!stream.push(wire.subarray(at, end), (message) => void messages.push(Buffer.from(message)))) break;
        at = end;
      }
      for (const message of messages) {
        expect(message.length).toBeWithin(4, MAX_MESSAGE_BYTES + 1);
        const read = readMessage(message);
        for (const value of read?.attributes.values() ?? []) expect(value.length).toBeLessThan(message.length);
        expect(readChannelData(message)?.data.length ?? 0).toBeLessThan(message.length);
      }
      const passed = Buffer.concat(messages);
      expect(passed).toEqual(wire.subarray(0, passed.length));
    }),
    { numRuns: 5_000, seed: 20_260_403 },
  );
});
