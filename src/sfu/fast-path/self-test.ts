/** A wrong packet is worse than a slow one: before native code is used, it has to protect packets just as TypeScript does. */

import { createSrtpCipher } from "../wire/srtp/srtp.ts";
import type { SrtpMasterKey } from "../wire/srtp/srtp-cipher.ts";
import type { FastPath } from "./fast-path.ts";

const HEADER_BYTES = 12;
const PACKET_BYTES = 200;
const ROLLOVER = 3;

const MASTERS: readonly SrtpMasterKey[] = [
  { profile: "AEAD_AES_128_GCM", key: pattern(16), salt: pattern(12) },
  { profile: "AES_CM_128_HMAC_SHA1_80", key: pattern(16), salt: pattern(14) },
];

/** Null: none. */
export function findDisagreement(path: FastPath): string | null {
  for (const master of MASTERS) {
    const expected = protectedBy(createSrtpCipher(master));
    const cipher = path.createCipher(master);
    const actual = protectedBy(cipher);
    const opened = cipher.decryptRtp(actual.slice(), HEADER_BYTES, actual.length, ROLLOVER, 0x0203);
    cipher.close();
    if (!Buffer.from(actual).equals(expected) || opened !== PACKET_BYTES)
      return `${master.profile} gives other packets than TypeScript`;
  }
  return null;
}

function protectedBy(cipher: ReturnType<FastPath["createCipher"]>): Uint8Array {
  const packet = new Uint8Array(PACKET_BYTES + cipher.rtpOverhead);
  packet.set(pattern(PACKET_BYTES));
  packet[0] = 0x80;
  return packet.subarray(0, cipher.encryptRtp(packet, HEADER_BYTES, PACKET_BYTES, ROLLOVER, 0x0203));
}

function pattern(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => i);
}
