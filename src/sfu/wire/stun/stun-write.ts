// The STUN messages we send: the answer to a check, a typed refusal, and a check itself.

import { readUint8, writeAscii, writeUint16, writeUint32 } from "../rtp/bytes.ts";
import { STUN_ATTRIBUTE, STUN_HEADER_BYTES, STUN_TYPE, type StunMessage, sealStun } from "./stun.ts";

const MAGIC_COOKIE = 0x2112a442;
/** A binding success over IPv6 with integrity and fingerprint. */
export const MAX_BINDING_SUCCESS_BYTES = 76;

function writeStunHeader(out: Uint8Array, type: number, transactionId: Uint8Array): number {
  writeUint16(out, 0, type);
  writeUint16(out, 2, 0);
  writeUint32(out, 4, MAGIC_COOKIE);
  out.set(transactionId, 8);
  return STUN_HEADER_BYTES;
}

/** Answers `request` with the address it came from. Returns the length, or −1 when `address` is not an IP. */
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
  return sealStun(out, writeXorMappedAddress(out, at, ip, port), password);
}

function writeXorMappedAddress(out: Uint8Array, at: number, ip: Uint8Array, port: number): number {
  writeUint16(out, at, STUN_ATTRIBUTE.xorMappedAddress);
  writeUint16(out, at + 2, 4 + ip.length);
  writeUint16(out, at + 4, ip.length === 4 ? 1 : 2);
  writeUint16(out, at + 6, port ^ (MAGIC_COOKIE >>> 16));
  // The mask is the cookie followed by the transaction id: bytes 4 … 19 of the header.
  for (let i = 0; i < ip.length; i++) out[at + 8 + i] = readUint8(ip, i) ^ readUint8(out, 4 + i);
  return at + 8 + ip.length;
}

/** XOR-MAPPED-ADDRESS of a response. */
export function readMappedAddress(message: StunMessage): { address: Uint8Array; port: number } | undefined {
  const { data, xorMappedAddressOffset: at } = message;
  if (at < 0) return undefined;
  const size = readUint8(data, at + 1) === 1 ? 4 : 16;
  if (at + 4 + size > data.length) return undefined;
  const address = new Uint8Array(size);
  for (let i = 0; i < size; i++) address[i] = readUint8(data, at + 4 + i) ^ readUint8(data, 4 + i);
  return { address, port: ((readUint8(data, at + 2) << 8) | readUint8(data, at + 3)) ^ (MAGIC_COOKIE >>> 16) };
}

/** Without a password for 400 and 401: the sender has proved nothing. */
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

export type BindingRequest = {
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

/** Dotted IPv4 or any IPv6 notation as the socket reports it (a zone is ignored). */
export function parseIp(address: string): Uint8Array | undefined {
  if (!address.includes(":")) return parseIpv4(address);
  const [text = ""] = address.split("%");
  const halves = text.split("::");
  if (halves.length > 2) return undefined;
  const head = parseGroups(halves[0] ?? "");
  const tail = halves.length === 2 ? parseGroups(halves[1] ?? "") : [];
  if (head === undefined || tail === undefined) return undefined;
  const gap = 16 - head.length - tail.length;
  if (halves.length === 2 ? gap < 2 : gap !== 0) return undefined;
  return Uint8Array.from([...head, ...new Array<number>(gap).fill(0), ...tail]);
}

function parseGroups(text: string): number[] | undefined {
  const bytes: number[] = [];
  if (text === "") return bytes;
  for (const group of text.split(":")) {
    if (group.includes(".")) {
      const v4 = parseIpv4(group);
      if (v4 === undefined) return undefined;
      bytes.push(...v4);
    } else {
      if (!/^[0-9a-f]{1,4}$/i.test(group)) return undefined;
      const value = Number.parseInt(group, 16);
      bytes.push(value >> 8, value & 0xff);
    }
  }
  return bytes;
}

/** Byte by byte: it is done for every check. */
function parseIpv4(text: string): Uint8Array | undefined {
  const ip = new Uint8Array(4);
  let part = 0;
  let digits = 0;
  let value = 0;
  for (let i = 0; i <= text.length; i++) {
    const digit = i < text.length ? text.charCodeAt(i) - 48 : -2;
    if (digit >= 0 && digit <= 9 && digits < 3) {
      value = value * 10 + digit;
      digits++;
      continue;
    }
    // A dot is two below the nought, and so is the end.
    if (digit !== -2 || digits === 0 || value > 255 || part > 3) return undefined;
    ip[part++] = value;
    digits = value = 0;
  }
  return part === 4 ? ip : undefined;
}
