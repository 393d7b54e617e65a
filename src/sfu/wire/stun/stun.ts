// STUN as an ICE-lite responder needs it (RFC 8489, RFC 8445): read a binding request, check it, answer it.

import { createHmac } from "node:crypto";
import { readAscii, readUint16, readUint32, writeUint16, writeUint32 } from "../rtp/bytes.ts";
import { crc32 } from "../rtp/crc32.ts";

export const STUN_HEADER_BYTES = 20;
const MAGIC_COOKIE = 0x2112a442;
const FINGERPRINT_XOR = 0x5354554e;
const INTEGRITY_BYTES = 20;

export const STUN_TYPE = {
  bindingRequest: 0x0001,
  bindingIndication: 0x0011,
  bindingSuccess: 0x0101,
  bindingError: 0x0111,
} as const;

export const STUN_ATTRIBUTE = {
  username: 0x0006,
  messageIntegrity: 0x0008,
  errorCode: 0x0009,
  xorMappedAddress: 0x0020,
  priority: 0x0024,
  useCandidate: 0x0025,
  fingerprint: 0x8028,
  iceControlled: 0x8029,
  iceControlling: 0x802a,
} as const;

/** Short-term credentials, as a description names them. */
export type IceCredentials = { ufrag: string; pwd: string };

export interface StunMessage {
  data: Uint8Array;
  type: number;
  /** 12 bytes within `data`. */
  transactionId: Uint8Array;
  /** Of a request to us: `ourFragment:theirFragment`. */
  username: string | undefined;
  priority: number | undefined;
  useCandidate: boolean;
  iceControlling: bigint | undefined;
  iceControlled: bigint | undefined;
  /** Where the attribute values start in `data`; −1 when absent. */
  xorMappedAddressOffset: number;
  integrityOffset: number;
  fingerprintOffset: number;
}

export function isStun(data: Uint8Array, length = data.length): boolean {
  return length >= STUN_HEADER_BYTES && (data[0] as number) < 4 && readUint32(data, 4) === MAGIC_COOKIE;
}

/** Undefined unless the message is well-formed to its last byte. Nothing in it is trusted before `hasIntegrity`. */
export function parseStun(data: Uint8Array, length = data.length): StunMessage | undefined {
  if (!isStun(data, length)) return undefined;
  const bodyLength = readUint16(data, 2);
  if ((bodyLength & 3) !== 0 || STUN_HEADER_BYTES + bodyLength !== length) return undefined;
  const message: StunMessage = {
    data: data.subarray(0, length),
    type: readUint16(data, 0),
    transactionId: data.subarray(8, 20),
    username: undefined,
    priority: undefined,
    useCandidate: false,
    iceControlling: undefined,
    iceControlled: undefined,
    xorMappedAddressOffset: -1,
    integrityOffset: -1,
    fingerprintOffset: -1,
  };
  let at = STUN_HEADER_BYTES;
  while (at < length) {
    if (at + 4 > length) return undefined;
    const type = readUint16(data, at);
    const size = readUint16(data, at + 2);
    const value = at + 4;
    if (value + size > length) return undefined;
    // Only FINGERPRINT counts behind MESSAGE-INTEGRITY, and nothing behind FINGERPRINT.
    if (message.fingerprintOffset >= 0) return undefined;
    if (message.integrityOffset < 0 || type === STUN_ATTRIBUTE.fingerprint) {
      if (!readAttribute(message, type, value, size)) return undefined;
    }
    at = value + ((size + 3) & ~3);
  }
  return at === length ? message : undefined;
}

function readAttribute(message: StunMessage, type: number, at: number, size: number): boolean {
  const { data } = message;
  switch (type) {
    case STUN_ATTRIBUTE.username:
      if (size > 513) return false;
      message.username = readAscii(data, at, size);
      return true;
    case STUN_ATTRIBUTE.priority:
      if (size !== 4) return false;
      message.priority = readUint32(data, at);
      return true;
    case STUN_ATTRIBUTE.useCandidate:
      message.useCandidate = true;
      return size === 0;
    case STUN_ATTRIBUTE.iceControlling:
      if (size !== 8) return false;
      message.iceControlling = readUint64(data, at);
      return true;
    case STUN_ATTRIBUTE.iceControlled:
      if (size !== 8) return false;
      message.iceControlled = readUint64(data, at);
      return true;
    case STUN_ATTRIBUTE.xorMappedAddress:
      message.xorMappedAddressOffset = at;
      return size === 8 || size === 20;
    case STUN_ATTRIBUTE.messageIntegrity:
      message.integrityOffset = at;
      return size === INTEGRITY_BYTES;
    case STUN_ATTRIBUTE.fingerprint:
      message.fingerprintOffset = at;
      return size === 4;
    default:
      return true;
  }
}

function readUint64(data: Uint8Array, at: number): bigint {
  return (BigInt(readUint32(data, at)) << 32n) | BigInt(readUint32(data, at + 4));
}

/** MESSAGE-INTEGRITY with short-term credentials: the key is the password itself. */
export function hasIntegrity(message: StunMessage, password: string): boolean {
  if (message.integrityOffset < 0) return false;
  const { data } = message;
  const end = message.integrityOffset - 4;
  const digest = integrityOf(data, end, password);
  let difference = 0;
  for (let i = 0; i < INTEGRITY_BYTES; i++) {
    difference |= (data[message.integrityOffset + i] as number) ^ (digest[i] as number);
  }
  return difference === 0;
}

export function hasFingerprint(message: StunMessage): boolean {
  const at = message.fingerprintOffset;
  return at >= 0 && readUint32(message.data, at) === fingerprintOf(message.data, at - 4);
}

/** The length field counts up to and with the attribute that is being computed (RFC 8489 §14.5). */
function integrityOf(data: Uint8Array, end: number, password: string): Uint8Array {
  const head = new Uint8Array(STUN_HEADER_BYTES);
  head.set(data.subarray(0, STUN_HEADER_BYTES));
  writeUint16(head, 2, end + 4 + INTEGRITY_BYTES - STUN_HEADER_BYTES);
  return createHmac("sha1", password).update(head).update(data.subarray(STUN_HEADER_BYTES, end)).digest();
}

function fingerprintOf(data: Uint8Array, end: number): number {
  return (crc32(data.subarray(0, end)) ^ FINGERPRINT_XOR) >>> 0;
}

/** Appends MESSAGE-INTEGRITY (when there is a password) and FINGERPRINT to a message that ends at `end`. */
export function sealStun(out: Uint8Array, end: number, password: string | undefined): number {
  let at = end;
  if (password !== undefined) {
    writeUint16(out, at, STUN_ATTRIBUTE.messageIntegrity);
    writeUint16(out, at + 2, INTEGRITY_BYTES);
    out.set(integrityOf(out, at, password), at + 4);
    at += 4 + INTEGRITY_BYTES;
  }
  writeUint16(out, 2, at + 8 - STUN_HEADER_BYTES);
  const fingerprint = fingerprintOf(out, at);
  writeUint16(out, at, STUN_ATTRIBUTE.fingerprint);
  writeUint16(out, at + 2, 4);
  writeUint32(out, at + 4, fingerprint);
  return at + 8;
}
