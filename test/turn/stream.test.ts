import { expect, test } from "bun:test";
import { writeChannelData } from "../../src/turn/channel-data.ts";
import { ATTRIBUTE, newTransaction, writeMessage } from "../../src/turn/message.ts";
import { MAX_MESSAGE_BYTES, TurnStream } from "../../src/turn/stream.ts";

const stun = writeMessage(3, newTransaction(), [[ATTRIBUTE.username, Buffer.from("seven")]], { key: null });
const frame = Buffer.alloc(64);
const channel = frame.subarray(0, writeChannelData(frame, 0x4001, Buffer.from("12345"), true));

test("messages come out whole, however the bytes are cut", () => {
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
