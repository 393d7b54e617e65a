import { expect, test } from "bun:test";
import { maskAddress, unmaskAddress } from "../../../src/network/turn/address.ts";
import {
  ATTRIBUTE,
  hasIntegrity,
  longTermKey,
  readMessage,
  type TurnMessage,
  textOf,
  transactionOf,
  writeMessage,
} from "../../../src/network/turn/message.ts";

const bytes = (hex: string) => Buffer.from(hex.replaceAll(/\s/g, ""), "hex");

function read(data: Buffer): TurnMessage {
  const message = readMessage(data);
  if (!message) throw new Error("unreadable");
  return message;
}

/** RFC 5769 §2.4. */
const LONG_TERM = bytes(`
  00 01 00 60 21 12 a4 42 78 ad 34 33 c6 ad 72 c0 29 da 41 2e
  00 06 00 12 e3 83 9e e3 83 88 e3 83 aa e3 83 83 e3 82 af e3 82 b9 00 00
  00 15 00 1c 66 2f 2f 34 39 39 6b 39 35 34 64 36 4f 4c 33 34 6f 4c 39 46 53 54 76 79 36 34 73 41
  00 14 00 0b 65 78 61 6d 70 6c 65 2e 6f 72 67 00
  00 08 00 14 f6 70 24 65 6d d6 4a 3e 02 b8 e0 71 2e 85 c9 a2 8c a8 96 66`);

test("a request with long-term credentials (RFC 5769 §2.4) is read and verified", () => {
  const message = read(LONG_TERM);
  expect(textOf(message, ATTRIBUTE.username)).toBe("マトリックス");
  expect(textOf(message, ATTRIBUTE.nonce)).toBe("f//499k954d6OL34oL9FSTvy64sA");
  expect(textOf(message, ATTRIBUTE.realm)).toBe("example.org");
  expect(hasIntegrity(message, longTermKey("マトリックス", "example.org", "TheMatrIX"))).toBe(true);
  expect(hasIntegrity(message, longTermKey("マトリックス", "example.org", "TheMatrix"))).toBe(false);
});

test("a request is written byte for byte as in the RFC", () => {
  const given = read(LONG_TERM);
  const names = [ATTRIBUTE.username, ATTRIBUTE.nonce, ATTRIBUTE.realm];
  const attributes = names.map((name) => [name, given.attributes.get(name) ?? Buffer.alloc(0)] as const);
  const key = longTermKey("マトリックス", "example.org", "TheMatrIX");
  expect(writeMessage(1, transactionOf(given), attributes, { key })).toEqual(LONG_TERM);
});

test.each([
  ["192.0.2.1", "000800 01 a147 e112a643"],
  ["2001:db8:1234:5678:11:2233:4455:6677", "001400 02 a147 0113a9fa a5d3f179 bc25f4b5 bed2b9d9"],
])("the masked address of %s (RFC 5769 §2.2, §2.3)", (address, hex) => {
  const transaction = bytes("b7e7a701bc34d686fa87dfae");
  const value = bytes(hex).subarray(2);
  expect(maskAddress({ address, port: 32_853 }, transaction)).toEqual(value);
  expect(unmaskAddress(value, transaction)).toEqual({ address, port: 32_853 });
});

test("a signed response with a fingerprint (RFC 5769 §2.2) is read and verified", () => {
  const key = Buffer.from("VOkJxbRl1RmTxUk/WvJxBt");
  // The vector pads with a space where zeros are written here: eleven characters and the space are twelve.
  const answer = bytes(`
    01 01 00 3c 21 12 a4 42 b7 e7 a7 01 bc 34 d6 86 fa 87 df ae
    80 22 00 0b 74 65 73 74 20 76 65 63 74 6f 72 20
    00 20 00 08 00 01 a1 47 e1 12 a6 43
    00 08 00 14 2b 91 f5 99 fd 9e 90 c3 8c 74 89 f9 2a f9 ba 53 f0 6b e7 d7
    80 28 00 04 c0 7d 4c 96`);
  expect(hasIntegrity(read(answer), key)).toBe(true);
  const transaction = bytes("b7e7a701bc34d686fa87dfae");
  const mapped = maskAddress({ address: "192.0.2.1", port: 32_853 }, transaction);
  const written = writeMessage(0x0101, transaction, [[ATTRIBUTE.mappedAddress, mapped]], { key, fingerprint: true });
  const sum = written.readUInt32BE(written.length - 4);
  expect((sum ^ Bun.hash.crc32(written.subarray(0, -8))) >>> 0).toBe(
    (answer.readUInt32BE(answer.length - 4) ^ Bun.hash.crc32(answer.subarray(0, -8))) >>> 0,
  );
});

test("attributes after MESSAGE-INTEGRITY are ignored", () => {
  const key = longTermKey("a", "b", "c");
  const signed = writeMessage(3, Buffer.alloc(12), [[ATTRIBUTE.username, Buffer.from("a")]], { key });
  const forged = Buffer.concat([signed, bytes("0014 0004 65766966")]);
  forged.writeUInt16BE(forged.length - 20, 2);
  const message = read(forged);
  expect(message.attributes.has(ATTRIBUTE.realm)).toBe(false);
});

test("no shortened, lengthened or scrambled message is accepted", () => {
  for (let length = 0; length < LONG_TERM.length; length++) {
    expect(readMessage(LONG_TERM.subarray(0, length))).toBeUndefined();
  }
  expect(readMessage(Buffer.concat([LONG_TERM, Buffer.alloc(4)]))).toBeUndefined();
  const key = longTermKey("マトリックス", "example.org", "TheMatrIX");
  for (let at = 0; at < LONG_TERM.length - 24; at++) {
    const scrambled = Buffer.from(LONG_TERM);
    scrambled[at] = (scrambled[at] ?? 0) ^ 0x40;
    const message = readMessage(scrambled);
    if (message) expect(hasIntegrity(message, key)).toBe(false);
  }
});
