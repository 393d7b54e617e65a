import { describe, expect, test } from "bun:test";
import { createHmac } from "node:crypto";
import fc from "fast-check";
import {
  ProtectionProfileAeadAes128Gcm,
  ProtectionProfileAes128CmHmacSha1_80,
  RtpHeader,
  SrtcpSession,
  SrtpSession,
} from "werift";
import { type SrtpMasterKey, type SrtpProfile, SrtpReceiver, SrtpSender } from "../../../../src/sfu/wire/srtp/srtp.ts";
import { deriveSessionKeys, masterSaltBytes } from "../../../../src/sfu/wire/srtp/srtp-cipher.ts";
import { CmCipher } from "../../../../src/sfu/wire/srtp/srtp-cm.ts";
import { GcmCipher } from "../../../../src/sfu/wire/srtp/srtp-gcm.ts";
import { PATHS } from "../../fast-path/both-paths.ts";
import { hex, rtpPacket, withRoom } from "../../packets.ts";

const PROFILES: SrtpProfile[] = ["AEAD_AES_128_GCM", "AES_CM_128_HMAC_SHA1_80"];

function masterKey(profile: SrtpProfile, seed = 1): SrtpMasterKey {
  const key = Uint8Array.from({ length: 16 }, (_, i) => (i * 7 + seed) & 0xff);
  const salt = Uint8Array.from({ length: masterSaltBytes(profile) }, (_, i) => (i * 13 + seed * 3) & 0xff);
  return { profile, key, salt };
}

function protect(sender: SrtpSender, packet: Uint8Array, headerLength = 12): Uint8Array<ArrayBuffer> {
  const out = withRoom(packet);
  return out.slice(0, sender.protectRtp(out, headerLength, packet.length));
}

describe("RFC 3711 and RFC 7714 test vectors", () => {
  test("[B.2] the AES-CM keystream is that of the RFC", () => {
    const zeros = (length: number) => new Uint8Array(length);
    const cipher = new CmCipher({
      rtpKey: hex("2B7E151628AED2A6ABF7158809CF4F3C"),
      rtpSalt: hex("F0F1F2F3F4F5F6F7F8F9FAFBFCFD"),
      rtpAuth: zeros(20),
      rtcpKey: zeros(16),
      rtcpSalt: zeros(14),
      rtcpAuth: zeros(20),
    });
    const data = new Uint8Array(12 + 48 + 20);
    data[0] = 0x80;
    cipher.encryptRtp(data, 12, 12 + 48, 0, 0);
    expect(data.slice(12, 60)).toEqual(
      hex("E03EAD0935C95E80E166B16DD92B4EB4 D23513162B02D0F72A43A2FE4A5F97AB 41E95B3BB0A2E8DD477901E4FCA894C0"),
    );
  });

  test("[B.3] the derived keys are those of the RFC", () => {
    const keys = deriveSessionKeys({
      profile: "AES_CM_128_HMAC_SHA1_80",
      key: hex("E1F97A0D3E018BE0D64FA32C06DE4139"),
      salt: hex("0EC675AD498AFEEBB6960B3AABE6"),
    });
    expect(keys.rtpKey).toEqual(hex("C61E7A93744F39EE10734AFE3FF7A087"));
    expect(keys.rtpSalt).toEqual(hex("30CBBC08863D8C85D49DB34A9AE1"));
    expect(keys.rtpAuth).toEqual(hex("CEBE321F6FF7716B6FD4AB49AF256A156D38BAA4"));
  });

  const gcm = () => {
    const key = hex("000102030405060708090a0b0c0d0e0f");
    const salt = hex("517569642070726f2071756f");
    const none = new Uint8Array(0);
    return new GcmCipher({ rtpKey: key, rtpSalt: salt, rtcpKey: key, rtcpSalt: salt, rtpAuth: none, rtcpAuth: none });
  };

  test("[16.1.1] the SRTP sample of AEAD_AES_128_GCM is encrypted and decrypted", () => {
    const plain = hex(
      "8040f17b8041f8d35501a0b247616c6c696120657374206f6d6e69732064697669736120696e207061727465732074726573",
    );
    const sealed = hex(
      "8040f17b8041f8d35501a0b2f24de3a3fb34de6cacba861c9d7e4bcabe633bd50d294e6f42a5f47a51c7d19b36de3adf8833899d7f27beb16a9152cf765ee4390cce",
    );
    const data = withRoom(plain);
    expect(gcm().encryptRtp(data, 12, plain.length, 0, 0xf17b)).toBe(sealed.length);
    expect(data.slice(0, sealed.length)).toEqual(sealed);
    expect(gcm().decryptRtp(data, 12, sealed.length, 0, 0xf17b)).toBe(plain.length);
    expect(data.slice(0, plain.length)).toEqual(plain);
  });

  test("[17.1] the SRTCP sample of AEAD_AES_128_GCM is encrypted and decrypted", () => {
    const plain = hex(
      "81c8000d4d6172734e5450314e545032525450200000042a0000e9304c756e61deadbeefdeadbeefdeadbeefdeadbeefdeadbeef",
    );
    const sealed = hex(
      "81c8000d4d61727363e94885dcdab67ca727d7662f6b7e997ff5c0f76c06f32dc676a5f1730d6fda4ce09b4686303ded0bb9275bc84aa45896cf4d2fc5abf87245d9eade800005d4",
    );
    const data = withRoom(plain);
    expect(gcm().encryptRtcp(data, plain.length, 0x5d4)).toBe(sealed.length);
    expect(data.slice(0, sealed.length)).toEqual(sealed);
    expect(gcm().decryptRtcp(data, sealed.length, 0x5d4)).toBe(plain.length);
    expect(data.slice(0, plain.length)).toEqual(plain);
  });
});

const CASES = PATHS.flatMap(([name, { createCipher }]) =>
  PROFILES.map((profile) => [profile, name, createCipher] as const),
);

describe.each(CASES)("SRTP with %s, %s", (profile, _name, createCipher) => {
  const werift = () => {
    const { key, salt } = masterKey(profile);
    const keys = {
      localMasterKey: Buffer.from(key),
      localMasterSalt: Buffer.from(salt),
      remoteMasterKey: Buffer.from(key),
      remoteMasterSalt: Buffer.from(salt),
    };
    const number =
      profile === "AEAD_AES_128_GCM" ? ProtectionProfileAeadAes128Gcm : ProtectionProfileAes128CmHmacSha1_80;
    return { rtp: new SrtpSession({ keys, profile: number }), rtcp: new SrtcpSession({ keys, profile: number }) };
  };

  test("another implementation decrypts our packets across the sequence wrap", () => {
    const sender = new SrtpSender(masterKey(profile), createCipher);
    const { rtp } = werift();
    for (let i = 0; i < 300; i++) {
      const packet = rtpPacket({ sequenceNumber: (65_400 + i) & 0xffff, payload: 20 + i });
      expect(new Uint8Array(rtp.decrypt(Buffer.from(protect(sender, packet))))).toEqual(packet);
    }
  });

  test("packets of another implementation are decrypted across the sequence wrap", () => {
    const receiver = new SrtpReceiver(masterKey(profile), createCipher);
    const { rtp } = werift();
    for (let i = 0; i < 300; i++) {
      const packet = rtpPacket({ sequenceNumber: (65_400 + i) & 0xffff, payload: 20 + i });
      const sealed = rtp.encrypt(Buffer.from(packet.subarray(12)), RtpHeader.deSerialize(Buffer.from(packet)));
      expect(receiver.unprotectRtp(sealed)).toBe(packet.length);
      expect(new Uint8Array(sealed.subarray(0, packet.length))).toEqual(packet);
    }
  });

  test("SRTCP agrees with another implementation in both directions", () => {
    const sender = new SrtpSender(masterKey(profile), createCipher);
    const receiver = new SrtpReceiver(masterKey(profile), createCipher);
    const { rtcp } = werift();
    for (let i = 0; i < 20; i++) {
      const packet = hex(`80c90001 0000${(0x1000 + i).toString(16)}  81ce0002 00000001 00000002`);
      const out = withRoom(packet);
      const length = sender.protectRtcp(out, packet.length);
      expect(new Uint8Array(rtcp.decrypt(Buffer.from(out.slice(0, length))))).toEqual(packet);
      const theirs = rtcp.encrypt(Buffer.from(packet));
      expect(receiver.unprotectRtcp(theirs)).toBe(packet.length);
      expect(new Uint8Array(theirs.subarray(0, packet.length))).toEqual(packet);
    }
  });

  test("any packet with CSRCs and extensions is restored", () => {
    fc.assert(
      fc.property(
        fc.uint8Array({ maxLength: 1200 }),
        fc.integer({ min: 0, max: 15 }),
        fc.nat(5),
        (payload, csrcs, words) => {
          const packet = rtpPacket({ payload, csrcs, extensionWords: words });
          const headerLength = packet.length - payload.length;
          const sealed = protect(new SrtpSender(masterKey(profile), createCipher), packet, headerLength);
          expect(sealed.subarray(0, headerLength)).toEqual(packet.subarray(0, headerLength));
          expect(new SrtpReceiver(masterKey(profile), createCipher).unprotectRtp(sealed)).toBe(packet.length);
          expect(sealed.slice(0, packet.length)).toEqual(packet);
        },
      ),
      { seed: 4, numRuns: 300 },
    );
  });

  test("a replayed packet is refused and counted, even out of order", () => {
    const sender = new SrtpSender(masterKey(profile), createCipher);
    const receiver = new SrtpReceiver(masterKey(profile), createCipher);
    const sealed = [1, 2, 3, 4, 5].map((sequenceNumber) => protect(sender, rtpPacket({ sequenceNumber })));
    for (const i of [0, 4, 2]) expect(receiver.unprotectRtp((sealed[i] as Uint8Array).slice())).toBeGreaterThan(0);
    for (const i of [0, 4, 2]) expect(receiver.unprotectRtp((sealed[i] as Uint8Array).slice())).toBe(-1);
    for (const i of [1, 3]) expect(receiver.unprotectRtp((sealed[i] as Uint8Array).slice())).toBeGreaterThan(0);
    expect(receiver.refusals).toEqual({ malformed: 0, replayed: 3, unauthentic: 0, tooManyStreams: 0 });
  });

  test("packets older than the window are refused, and late ones are not", () => {
    const sender = new SrtpSender(masterKey(profile), createCipher);
    const receiver = new SrtpReceiver(masterKey(profile), createCipher);
    const sealed = new Map<number, Uint8Array<ArrayBuffer>>();
    for (let n = 100; n <= 2_300; n++) sealed.set(n, protect(sender, rtpPacket({ sequenceNumber: n })));
    const open = (n: number) => receiver.unprotectRtp((sealed.get(n) as Uint8Array).slice()) > 0;
    expect([open(100), open(1_123), open(1_125), open(1_124)]).toEqual([true, true, true, true]);
    expect([open(2_300), open(1_277), open(1_276), open(100)]).toEqual([true, true, false, false]);
    expect(receiver.refusals).toMatchObject({ replayed: 2, unauthentic: 0 });
  });

  test("one altered bit anywhere is refused, and leaves the stream unharmed", () => {
    const sender = new SrtpSender(masterKey(profile), createCipher);
    const receiver = new SrtpReceiver(masterKey(profile), createCipher);
    const sealed = protect(sender, rtpPacket({ sequenceNumber: 1000, payload: 40 }));
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const forged = sealed.slice();
      forged[bit >> 3] = (forged[bit >> 3] as number) ^ (1 << (bit & 7));
      expect(receiver.unprotectRtp(forged)).toBe(-1);
    }
    expect(receiver.unprotectRtp(sealed.slice())).toBe(52);
    expect(receiver.unprotectRtp(protect(sender, rtpPacket({ sequenceNumber: 1001 })))).toBeGreaterThan(0);
  });

  test("a forged packet cannot move the window or the rollover counter", () => {
    const sender = new SrtpSender(masterKey(profile), createCipher);
    const receiver = new SrtpReceiver(masterKey(profile), createCipher);
    receiver.unprotectRtp(protect(sender, rtpPacket({ sequenceNumber: 1000 })));
    const stranger = new SrtpSender(masterKey(profile, 99), createCipher);
    for (const sequenceNumber of [30_000, 60_000, 20_000]) {
      expect(receiver.unprotectRtp(protect(stranger, rtpPacket({ sequenceNumber })))).toBe(-1);
    }
    expect(receiver.unprotectRtp(protect(sender, rtpPacket({ sequenceNumber: 1001 })))).toBeGreaterThan(0);
  });

  test("a burst of any length up to 32,767 across the wrap is harmless", () => {
    for (const lost of [1, 126, 200, 1_000, 20_000, 32_000]) {
      const sender = new SrtpSender(masterKey(profile), createCipher);
      const receiver = new SrtpReceiver(masterKey(profile), createCipher);
      let sequence = 65_536 - Math.ceil(lost / 2) - 5;
      const next = () => protect(sender, rtpPacket({ sequenceNumber: sequence++ & 0xffff }));
      for (let i = 0; i < 5; i++) expect(receiver.unprotectRtp(next())).toBeGreaterThan(0);
      sequence += lost;
      for (let i = 0; i < 50; i++) expect(receiver.unprotectRtp(next())).toBeGreaterThan(0);
    }
  });

  test("late packets from before the wrap are decrypted after it", () => {
    const sender = new SrtpSender(masterKey(profile), createCipher);
    const receiver = new SrtpReceiver(masterKey(profile), createCipher);
    const sealed = [65_533, 65_534, 65_535, 0, 1].map((n) => protect(sender, rtpPacket({ sequenceNumber: n })));
    for (const i of [0, 3, 4, 2, 1])
      expect(receiver.unprotectRtp((sealed[i] as Uint8Array).slice())).toBeGreaterThan(0);
  });

  test("a replayed or altered SRTCP packet is refused", () => {
    const sender = new SrtpSender(masterKey(profile), createCipher);
    const receiver = new SrtpReceiver(masterKey(profile), createCipher);
    const out = withRoom(hex("80c9000100001000"));
    const sealed = out.slice(0, sender.protectRtcp(out, 8));
    for (let bit = 0; bit < sealed.length * 8; bit++) {
      const forged = sealed.slice();
      forged[bit >> 3] = (forged[bit >> 3] as number) ^ (1 << (bit & 7));
      expect(receiver.unprotectRtcp(forged)).toBe(-1);
    }
    expect(receiver.unprotectRtcp(sealed.slice())).toBe(8);
    expect(receiver.unprotectRtcp(sealed.slice())).toBe(-1);
    expect(receiver.refusals.replayed).toBe(1);
  });

  test("SRTCP that is signed but not encrypted is refused", () => {
    const packet = withRoom(hex("80c90001000010000000000a"));
    const { rtcpAuth } = deriveSessionKeys(masterKey(profile));
    packet.set(createHmac("sha1", rtcpAuth).update(packet.subarray(0, 12)).digest().subarray(0, 10), 12);
    const receiver = new SrtpReceiver(masterKey(profile), createCipher);
    expect(receiver.unprotectRtcp(packet, profile === "AEAD_AES_128_GCM" ? 32 : 22)).toBe(-1);
    expect(receiver.refusals.malformed).toBe(1);
  });

  test("no more than 512 streams are held for one peer", () => {
    const sender = new SrtpSender(masterKey(profile), createCipher);
    const receiver = new SrtpReceiver(masterKey(profile), createCipher);
    const open = (ssrc: number) => receiver.unprotectRtp(protect(sender, rtpPacket({ ssrc })));
    for (let ssrc = 1; ssrc <= 512; ssrc++) expect(open(ssrc)).toBeGreaterThan(0);
    expect(open(513)).toBe(-1);
    expect(receiver.refusals.tooManyStreams).toBe(1);
  });
});
