import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import ipaddr from "ipaddr.js";
import {
  hasFingerprint,
  hasIntegrity,
  isStun,
  MAX_BINDING_SUCCESS_BYTES,
  parseIp,
  parseStun,
  STUN_TYPE,
  writeBindingError,
  writeBindingRequest,
  writeBindingSuccess,
} from "../../../../src/sfu/wire/stun/stun.ts";
import { hex, readMappedAddress } from "../../packets.ts";

const PASSWORD = "VOkJxbRl1RmTxUk/WvJxBt";
const TRANSACTION = hex("b7e7a701bc34d686fa87dfae");
const REQUEST = hex(`00010058 2112a442 b7e7a701bc34d686fa87dfae
  80220010 5354554e207465737420636c69656e74  00240004 6e0001ff  80290008 932ff9b151263b36
  00060009 6576746a3a68367659 202020  00080014 9aeaa70cbfd8cb56781ef2b5b2d3f249c1b571a2  80280004 e57a3bcf`);
const RESPONSE_V4 = hex(`0101003c 2112a442 b7e7a701bc34d686fa87dfae  8022000b 7465737420766563746f7220
  00200008 0001a147e112a643  00080014 2b91f599fd9e90c38c7489f92af9ba53f06be7d7  80280004 c07d4c96`);
const RESPONSE_V6 = hex(`01010048 2112a442 b7e7a701bc34d686fa87dfae  8022000b 7465737420766563746f7220
  00200014 0002a1470113a9faa5d3f179bc25f4b5bed2b9d9  00080014 a382954e4be67bf11784c97c8292c275bfe3ed41  80280004 c8fb0b4c`);

describe("RFC 5769 test vectors", () => {
  test("[2.1] the sample request is parsed and verified", () => {
    const message = parseStun(REQUEST);
    if (message === undefined) throw new Error("not parsed");
    expect(message).toMatchObject({
      type: STUN_TYPE.bindingRequest,
      username: "evtj:h6vY",
      priority: 0x6e0001ff,
      iceControlled: 0x932ff9b151263b36n,
      iceControlling: undefined,
      useCandidate: false,
    });
    expect(new Uint8Array(message.transactionId)).toEqual(TRANSACTION);
    expect(hasIntegrity(message, PASSWORD)).toBe(true);
    expect(hasFingerprint(message)).toBe(true);
    expect(hasIntegrity(message, `${PASSWORD}x`)).toBe(false);
  });

  test.each([
    ["2.2", RESPONSE_V4, "192.0.2.1"],
    ["2.3", RESPONSE_V6, "2001:db8:1234:5678:11:2233:4455:6677"],
  ])("[%s] the sample response is parsed and verified", (_, bytes, address) => {
    const message = parseStun(bytes);
    if (message === undefined) throw new Error("not parsed");
    expect(hasIntegrity(message, PASSWORD)).toBe(true);
    expect(hasFingerprint(message)).toBe(true);
    const mapped = readMappedAddress(message);
    expect(mapped?.port).toBe(32_853);
    expect(mapped?.address).toEqual(parseIp(address));
  });
});

describe("STUN binding", () => {
  const request = (useCandidate = true) => {
    const out = new Uint8Array(200);
    const length = writeBindingRequest(out, {
      transactionId: TRANSACTION,
      username: "server:client",
      password: PASSWORD,
      priority: 1_853_693_695,
      useCandidate,
      iceControlling: 0xfedcba9876543210n,
    });
    return out.slice(0, length);
  };

  test("a check is parsed with all attributes that ICE-lite needs", () => {
    const message = parseStun(request());
    expect(message).toMatchObject({
      username: "server:client",
      priority: 1_853_693_695,
      useCandidate: true,
      iceControlling: 0xfedcba9876543210n,
    });
    expect(parseStun(request(false))?.useCandidate).toBe(false);
  });

  test.each(["127.0.0.1", "255.255.255.255", "::1", "2001:db8::1", "::ffff:10.0.0.1", "fe80::1%eth0"])(
    "the answer tells %s where it came from, and is no longer than the check",
    (address) => {
      const message = parseStun(request());
      if (message === undefined) throw new Error("not parsed");
      const out = new Uint8Array(200);
      const length = writeBindingSuccess(out, message, address, 65_535, PASSWORD);
      expect(length).toBeLessThanOrEqual(MAX_BINDING_SUCCESS_BYTES);
      expect(length).toBeLessThanOrEqual(request().length);
      const answer = parseStun(out.slice(0, length));
      if (answer === undefined) throw new Error("answer not parsed");
      expect(answer.type).toBe(STUN_TYPE.bindingSuccess);
      expect(new Uint8Array(answer.transactionId)).toEqual(TRANSACTION);
      expect(hasIntegrity(answer, PASSWORD)).toBe(true);
      expect(hasFingerprint(answer)).toBe(true);
      expect(readMappedAddress(answer)).toEqual({ address: parseIp(address) as Uint8Array, port: 65_535 });
    },
  );

  test("an error response has its code, and no integrity before authentication", () => {
    const message = parseStun(request());
    if (message === undefined) throw new Error("not parsed");
    const out = new Uint8Array(200);
    const answer = parseStun(out.slice(0, writeBindingError(out, message, 487, "Role Conflict")));
    if (answer === undefined) throw new Error("answer not parsed");
    expect(answer.type).toBe(STUN_TYPE.bindingError);
    expect(hasIntegrity(answer, PASSWORD)).toBe(false);
    expect(hasFingerprint(answer)).toBe(true);
    expect(answer.data.slice(26, 28)).toEqual(Uint8Array.of(4, 87));
  });

  test("a check with one altered bit is refused: malformed, or without integrity", () => {
    const good = request();
    const integrityEnd = good.length - 8;
    for (let bit = 0; bit < integrityEnd * 8; bit++) {
      const forged = good.slice();
      forged[bit >> 3] = (forged[bit >> 3] as number) ^ (1 << (bit & 7));
      const message = parseStun(forged);
      expect(message !== undefined && hasIntegrity(message, PASSWORD)).toBe(false);
    }
  });

  test("attributes after MESSAGE-INTEGRITY are ignored", () => {
    const without = request(false);
    // USE-CANDIDATE squeezed in between MESSAGE-INTEGRITY and FINGERPRINT.
    const forged = Uint8Array.from([...without.slice(0, -8), ...hex("00250000"), ...without.slice(-8)]);
    forged[3] = forged.length - 20;
    const message = parseStun(forged);
    expect(message?.useCandidate).toBe(false);
    expect(message !== undefined && hasFingerprint(message)).toBe(false);
  });

  test("nothing may follow the fingerprint", () => {
    const forged = Uint8Array.from([...request(), ...hex("00250000")]);
    forged[3] = forged.length - 20;
    expect(parseStun(forged)).toBeUndefined();
  });

  test("other packets are not recognised as STUN", () => {
    expect(isStun(hex("16fefd000000000000000000000000000000000000"))).toBe(false);
    expect(isStun(REQUEST.slice(0, 19))).toBe(false);
    expect(parseStun(REQUEST.slice(0, -4))).toBeUndefined();
    expect(parseStun(Uint8Array.from([...REQUEST, 0, 0, 0, 0]))).toBeUndefined();
  });

  test.each([
    "",
    "1.2.3",
    "1.2.3.256",
    "1.2.3.4.5",
    "1.2.3.0004",
    "1..2.3",
    ".1.2.3",
    "1.2.3.",
    "1.2.3.-4",
    "1,2,3,4",
    "::1::",
    "12345::",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "host",
  ])("%p is no address", (address) => {
    expect(parseIp(address)).toBeUndefined();
  });

  test("any IPv6 address is parsed in all its notations", () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(0, 0, 0, 1, 0xab, 0xff), { minLength: 16, maxLength: 16 }), (bytes) => {
        const address = new ipaddr.IPv6(bytes);
        const expected = Uint8Array.from(bytes);
        for (const text of [address.toString(), address.toNormalizedString()]) {
          expect(parseIp(text)).toEqual(expected);
        }
      }),
      { seed: 6, numRuns: 500 },
    );
  });
});
