/** STUN and TURN messages (RFC 8489, RFC 8656), for clients and servers. */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import {
  fingerprintOf,
  INTEGRITY_BYTES,
  integrityOf,
  isStun,
  MAGIC_COOKIE,
  STUN_HEADER_BYTES,
} from "../../sfu/wire/stun/stun.ts";

const TRANSACTION_AT = 8;

export const TURN_TYPE = {
  binding: 0x0001,
  allocate: 0x0003,
  refresh: 0x0004,
  createPermission: 0x0008,
  channelBind: 0x0009,
  send: 0x0016,
  data: 0x0017,
} as const;

const SUCCESS = 0x0100;
const ERROR = 0x0110;
export const successOf = (type: number): number => type | SUCCESS;
export const errorOf = (type: number): number => type | ERROR;

export const ATTRIBUTE = {
  username: 0x0006,
  messageIntegrity: 0x0008,
  errorCode: 0x0009,
  unknownAttributes: 0x000a,
  channelNumber: 0x000c,
  lifetime: 0x000d,
  peerAddress: 0x0012,
  data: 0x0013,
  realm: 0x0014,
  nonce: 0x0015,
  relayedAddress: 0x0016,
  requestedFamily: 0x0017,
  evenPort: 0x0018,
  requestedTransport: 0x0019,
  mappedAddress: 0x0020,
  fingerprint: 0x8028,
} as const;

/** A request with an unknown attribute below this type is rejected. */
const OPTIONAL_FROM = 0x8000;
const KNOWN: ReadonlySet<number> = new Set(Object.values(ATTRIBUTE));

export type Attribute = readonly [name: number, value: Uint8Array];

export type TurnMessage = {
  readonly data: Buffer;
  readonly type: number;
  /**
   * The first attribute of each type. Attributes after MESSAGE-INTEGRITY are unsigned and left out, except FINGERPRINT.
   */
  readonly attributes: ReadonlyMap<number, Buffer>;
  readonly peers: readonly Buffer[];
  readonly unknown: readonly number[];
  /** The offset of MESSAGE-INTEGRITY; -1 when absent. */
  readonly integrityAt: number;
};

/** Undefined unless the message is well-formed to its last byte. Its content is not trusted before `hasIntegrity`. */
export function readMessage(data: Buffer): TurnMessage | undefined {
  if (!isStun(data)) return undefined;
  if (STUN_HEADER_BYTES + data.readUInt16BE(2) !== data.length || (data.length & 3) !== 0) return undefined;
  const attributes = new Map<number, Buffer>();
  const peers: Buffer[] = [];
  const unknown: number[] = [];
  let integrityAt = -1;
  let at = STUN_HEADER_BYTES;
  while (at < data.length) {
    const name = data.readUInt16BE(at);
    const size = data.readUInt16BE(at + 2);
    if (at + 4 + size > data.length) return undefined;
    if (integrityAt < 0 || name === ATTRIBUTE.fingerprint) {
      const value = data.subarray(at + 4, at + 4 + size);
      if (!attributes.has(name)) attributes.set(name, value);
      if (name === ATTRIBUTE.peerAddress) peers.push(value);
      if (name < OPTIONAL_FROM && !KNOWN.has(name)) unknown.push(name);
      if (name === ATTRIBUTE.messageIntegrity) integrityAt = at;
    }
    at += 4 + padded(size);
  }
  return { data, type: data.readUInt16BE(0), attributes, peers, unknown, integrityAt };
}

export function isDataIndication(message: Buffer): boolean {
  return message.length >= STUN_HEADER_BYTES && message.readUInt16BE(0) === TURN_TYPE.data;
}

export function padded(size: number): number {
  return (size + 3) & ~3;
}

export function transactionOf(message: TurnMessage): Buffer {
  return message.data.subarray(TRANSACTION_AT, STUN_HEADER_BYTES);
}

export const newTransaction = (): Buffer => randomBytes(12);

export function textOf(message: TurnMessage, name: number): string | undefined {
  return message.attributes.get(name)?.toString("utf8");
}

type Signing = {
  /** The long-term key; null leaves the message unsigned. */
  key: Buffer | null;
  fingerprint?: boolean;
};

export function writeMessage(
  type: number,
  transaction: Uint8Array,
  attributes: readonly Attribute[],
  { key, fingerprint = false }: Signing,
): Buffer {
  let size = STUN_HEADER_BYTES;
  for (const [, value] of attributes) size += 4 + padded(value.length);
  const signedTo = size;
  if (key) size += 4 + INTEGRITY_BYTES;
  if (fingerprint) size += 8;
  const message = Buffer.alloc(size);
  message.writeUInt16BE(type, 0);
  message.writeUInt32BE(MAGIC_COOKIE, 4);
  message.set(transaction, TRANSACTION_AT);
  let at = STUN_HEADER_BYTES;
  for (const [name, value] of attributes) at = writeAttribute(message, at, name, value);
  if (key) at = writeAttribute(message, at, ATTRIBUTE.messageIntegrity, integrityOf(message, signedTo, key));
  message.writeUInt16BE(size - STUN_HEADER_BYTES, 2);
  if (fingerprint) {
    const checksum = Buffer.alloc(4);
    checksum.writeUInt32BE(fingerprintOf(message, at));
    writeAttribute(message, at, ATTRIBUTE.fingerprint, checksum);
  }
  return message;
}

function writeAttribute(message: Buffer, at: number, name: number, value: Uint8Array): number {
  message.writeUInt16BE(name, at);
  message.writeUInt16BE(value.length, at + 2);
  message.set(value, at + 4);
  return at + 4 + padded(value.length);
}

export function longTermKey(username: string, realm: string, password: string): Buffer {
  return createHash("md5").update(`${username}:${realm}:${password}`).digest();
}

export function hasIntegrity(message: TurnMessage, key: Buffer): boolean {
  const given = message.attributes.get(ATTRIBUTE.messageIntegrity);
  if (message.integrityAt < 0 || given?.length !== INTEGRITY_BYTES) return false;
  return timingSafeEqual(given, integrityOf(message.data, message.integrityAt, key));
}

export function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
}

export function uint16s(values: readonly number[]): Buffer {
  const bytes = Buffer.alloc(values.length * 2);
  for (const [at, value] of values.entries()) bytes.writeUInt16BE(value, at * 2);
  return bytes;
}

export function errorValue(code: number, reason: string): Buffer {
  return Buffer.concat([Buffer.from([0, 0, Math.floor(code / 100), code % 100]), Buffer.from(reason)]);
}

export function errorCodeOf(message: TurnMessage): number | null {
  const value = message.attributes.get(ATTRIBUTE.errorCode);
  return value === undefined || value.length < 4 ? null : (value.readUInt8(2) & 7) * 100 + value.readUInt8(3);
}
