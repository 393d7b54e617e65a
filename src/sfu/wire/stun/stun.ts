// STUN messages of ICE connectivity checks (RFC 8489, RFC 8445): parsing, verifying and writing.

import { createHmac, timingSafeEqual } from "node:crypto";
import ipaddr from "ipaddr.js";
import { readAscii, readUint8, readUint16, readUint32, writeAscii, writeUint16, writeUint32 } from "../rtp/bytes.ts";

/** CRC-32 by the runtime where it has one. A headless participant also runs on Node 20, which has none. */
export const crc32: (data: Uint8Array) => number =
  typeof Bun === "undefined" ? crc32ByTable : (data) => Bun.hash.crc32(data);

const TABLE = Uint32Array.from({ length: 256 }, (_, index) => {
  let value = index;
  for (let bit = 0; bit < 8; bit++) value = value & 1 ? (value >>> 1) ^ 0xedb88320 : value >>> 1;
  return value;
});

export function crc32ByTable(data: Uint8Array): number {
  let value = 0xffffffff;
  for (const byte of data) value = (value >>> 8) ^ (TABLE[(value ^ byte) & 0xff] as number);
  return (value ^ 0xffffffff) >>> 0;
}

export const STUN_HEADER_BYTES = 20;
export const MAGIC_COOKIE = 0x2112a442;
const FINGERPRINT_XOR = 0x5354554e;
export const INTEGRITY_BYTES = 20;

export const STUN_TYPE = {
  bindingRequest: 0x0001,
  bindingIndication: 0x0011,
  bindingSuccess: 0x0101,
  bindingError: 0x0111,
} as const;

const STUN_ATTRIBUTE = {
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

/** Short-term credentials, as a session description has them. */
export type IceCredentials = { ufrag: string; pwd: string };

export interface StunMessage {
  data: Uint8Array;
  type: number;
  /** 12 bytes within `data`. */
  transactionId: Uint8Array;
  /** In a request to this server: `ourFragment:theirFragment`. */
  username: string | undefined;
  priority: number | undefined;
  useCandidate: boolean;
  iceControlling: bigint | undefined;
  iceControlled: bigint | undefined;
  /** Offsets of attribute values in `data`; −1 when absent. */
  xorMappedAddressOffset: number;
  integrityOffset: number;
  fingerprintOffset: number;
}

export function isStun(data: Uint8Array, length = data.length): boolean {
  return length >= STUN_HEADER_BYTES && (data[0] as number) < 4 && readUint32(data, 4) === MAGIC_COOKIE;
}

/** Returns undefined unless the whole message is well-formed. Nothing in it may be trusted before `hasIntegrity`. */
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
    // After MESSAGE-INTEGRITY only FINGERPRINT counts, and nothing may follow FINGERPRINT.
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

/** Checks MESSAGE-INTEGRITY, whose key with short-term credentials is the password itself. */
export function hasIntegrity(message: StunMessage, password: string): boolean {
  if (message.integrityOffset < 0) return false;
  const { data, integrityOffset: at } = message;
  return timingSafeEqual(data.subarray(at, at + INTEGRITY_BYTES), integrityOf(data, at - 4, password));
}

export function hasFingerprint(message: StunMessage): boolean {
  const at = message.fingerprintOffset;
  return at >= 0 && readUint32(message.data, at) === fingerprintOf(message.data, at - 4);
}

/** The length field includes the attribute that is being computed (RFC 8489 §14.5). */
export function integrityOf(data: Uint8Array, end: number, key: string | Buffer): Buffer {
  const head = new Uint8Array(STUN_HEADER_BYTES);
  head.set(data.subarray(0, STUN_HEADER_BYTES));
  writeUint16(head, 2, end + 4 + INTEGRITY_BYTES - STUN_HEADER_BYTES);
  return createHmac("sha1", key).update(head).update(data.subarray(STUN_HEADER_BYTES, end)).digest();
}

export function fingerprintOf(data: Uint8Array, end: number): number {
  return (crc32(data.subarray(0, end)) ^ FINGERPRINT_XOR) >>> 0;
}

/** Appends MESSAGE-INTEGRITY (with a password) and FINGERPRINT to a message that ends at `end`. */
function sealStun(out: Uint8Array, end: number, password: string | undefined): number {
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

/** The length of a binding success over IPv6 with integrity and fingerprint. */
export const MAX_BINDING_SUCCESS_BYTES = 76;

function writeStunHeader(out: Uint8Array, type: number, transactionId: Uint8Array): number {
  writeUint16(out, 0, type);
  writeUint16(out, 2, 0);
  writeUint32(out, 4, MAGIC_COOKIE);
  out.set(transactionId, 8);
  return STUN_HEADER_BYTES;
}

/** Writes the response with the address that `request` came from; returns its length, or −1 when `address` is no IP address. */
export function writeBindingSuccess(
  out: Uint8Array,
  request: StunMessage,
  address: string,
  port: number,
  password: string,
): number {
  const ip = parseIp(address);
  if (ip === undefined) return -1;
  const at = writeStunHeader(out, STUN_TYPE.bindingSuccess, request.transactionId);
  writeUint16(out, at, STUN_ATTRIBUTE.xorMappedAddress);
  writeUint16(out, at + 2, 4 + ip.length);
  out.set(xorAddress(ip, port, request.transactionId), at + 4);
  return sealStun(out, at + 8 + ip.length, password);
}

/** The value of XOR-MAPPED-ADDRESS, and of TURN's XOR-PEER-ADDRESS and XOR-RELAYED-ADDRESS (RFC 8489 §14.2). */
export function xorAddress(ip: Uint8Array, port: number, transactionId: Uint8Array): Uint8Array {
  const value = new Uint8Array(4 + ip.length);
  writeUint16(value, 0, ip.length === 4 ? 1 : 2);
  writeUint16(value, 2, port);
  value.set(ip, 4);
  return xorPortAndAddress(value, transactionId);
}

/** The mask is the magic cookie, followed by the transaction id for IPv6. Applied twice, it returns the plain value. */
export function xorPortAndAddress(value: Uint8Array, transactionId: Uint8Array): Uint8Array {
  const mask = new Uint8Array(4 + transactionId.length);
  writeUint32(mask, 0, MAGIC_COOKIE);
  mask.set(transactionId, 4);
  // A copy, because `slice` of a Buffer would share its memory.
  const masked = new Uint8Array(value);
  for (let i = 0; i < 2; i++) masked[2 + i] = readUint8(value, 2 + i) ^ readUint8(mask, i);
  for (let i = 4; i < value.length; i++) masked[i] = readUint8(value, i) ^ readUint8(mask, i - 4);
  return masked;
}

/** 400 and 401 have no integrity, because the sender has proved nothing. */
export function writeBindingError(
  out: Uint8Array,
  request: StunMessage,
  code: number,
  reason: string,
  password?: string,
): number {
  const at = writeStunHeader(out, STUN_TYPE.bindingError, request.transactionId);
  writeUint16(out, at, STUN_ATTRIBUTE.errorCode);
  writeUint16(out, at + 2, 4 + reason.length);
  writeUint16(out, at + 4, 0);
  out[at + 6] = Math.floor(code / 100);
  out[at + 7] = code % 100;
  writeAscii(out, at + 8, reason);
  return sealStun(out, pad(out, at + 8 + reason.length), password);
}

type BindingRequest = {
  transactionId: Uint8Array;
  username: string;
  password: string;
  priority: number;
  useCandidate: boolean;
} & ({ iceControlling: bigint } | { iceControlled: bigint });

export function writeBindingRequest(out: Uint8Array, request: BindingRequest): number {
  let at = writeStunHeader(out, STUN_TYPE.bindingRequest, request.transactionId);
  writeUint16(out, at, STUN_ATTRIBUTE.username);
  writeUint16(out, at + 2, request.username.length);
  writeAscii(out, at + 4, request.username);
  at = pad(out, at + 4 + request.username.length);
  writeUint16(out, at, STUN_ATTRIBUTE.priority);
  writeUint16(out, at + 2, 4);
  writeUint32(out, at + 4, request.priority);
  const controls = "iceControlling" in request;
  const tieBreaker = controls ? request.iceControlling : request.iceControlled;
  writeUint16(out, at + 8, controls ? STUN_ATTRIBUTE.iceControlling : STUN_ATTRIBUTE.iceControlled);
  writeUint16(out, at + 10, 8);
  writeUint32(out, at + 12, Number(tieBreaker >> 32n));
  writeUint32(out, at + 16, Number(tieBreaker & 0xffffffffn));
  at += 20;
  if (request.useCandidate) {
    writeUint16(out, at, STUN_ATTRIBUTE.useCandidate);
    writeUint16(out, at + 2, 0);
    at += 4;
  }
  return sealStun(out, at, request.password);
}

function pad(out: Uint8Array, end: number): number {
  while (end & 3) out[end++] = 0;
  return end;
}

/** The bytes of an address in the form in which sockets report it; a zone is ignored. */
export function parseIp(address: string): Uint8Array | undefined {
  const [text = ""] = address.split("%");
  const isValid = text.includes(":") ? ipaddr.IPv6.isValid(text) : ipaddr.IPv4.isValidFourPartDecimal(text);
  return isValid ? Uint8Array.from(ipaddr.parse(text).toByteArray()) : undefined;
}
