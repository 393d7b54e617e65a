// AEAD_AES_128_GCM (RFC 7714). Every packet needs a new cipher object (2.2 µs for 1,200 bytes), because an existing one cannot
// be initialised with a new nonce.

import { createCipheriv, createDecipheriv, createSecretKey, type KeyObject } from "node:crypto";
import { readUint8, readUint32, writeUint16, writeUint32 } from "../rtp/bytes.ts";
import type { SrtpCipher, SrtpSessionKeys } from "./srtp-cipher.ts";

const ALGORITHM = "aes-128-gcm";
const TAG_BYTES = 16;
const INDEX_BYTES = 4;
const RTCP_HEADER_BYTES = 8;

export class GcmCipher implements SrtpCipher {
  readonly handle = 0;
  readonly rtpOverhead = TAG_BYTES;
  readonly rtcpOverhead = TAG_BYTES + INDEX_BYTES;
  readonly #rtpKey: KeyObject;
  readonly #rtcpKey: KeyObject;
  readonly #rtpSalt: Uint8Array;
  readonly #rtcpSalt: Uint8Array;
  readonly #iv = new Uint8Array(12);
  readonly #rtcpAad = new Uint8Array(RTCP_HEADER_BYTES + INDEX_BYTES);

  constructor(keys: SrtpSessionKeys) {
    this.#rtpKey = createSecretKey(keys.rtpKey);
    this.#rtcpKey = createSecretKey(keys.rtcpKey);
    this.#rtpSalt = keys.rtpSalt;
    this.#rtcpSalt = keys.rtcpSalt;
  }

  /** §8.1: 00 00 SSRC ROC SEQ, XOR salt. */
  #rtpIv(ssrc: number, roc: number, sequenceNumber: number): Uint8Array {
    writeUint16(this.#iv, 0, 0);
    writeUint32(this.#iv, 2, ssrc);
    writeUint32(this.#iv, 6, roc);
    writeUint16(this.#iv, 10, sequenceNumber);
    return this.#xorSalt(this.#rtpSalt);
  }

  /** §9.1: 00 00 SSRC 00 00 index, XOR salt. */
  #rtcpIv(ssrc: number, index: number): Uint8Array {
    writeUint16(this.#iv, 0, 0);
    writeUint32(this.#iv, 2, ssrc);
    writeUint16(this.#iv, 6, 0);
    writeUint32(this.#iv, 8, index);
    return this.#xorSalt(this.#rtcpSalt);
  }

  #xorSalt(salt: Uint8Array): Uint8Array {
    for (let i = 0; i < 12; i++) this.#iv[i] = readUint8(this.#iv, i) ^ readUint8(salt, i);
    return this.#iv;
  }

  encryptRtp(data: Uint8Array, headerLength: number, length: number, roc: number, sequenceNumber: number): number {
    const cipher = createCipheriv(ALGORITHM, this.#rtpKey, this.#rtpIv(readUint32(data, 8), roc, sequenceNumber));
    cipher.setAAD(data.subarray(0, headerLength));
    data.set(cipher.update(data.subarray(headerLength, length)), headerLength);
    cipher.final();
    data.set(cipher.getAuthTag(), length);
    return length + TAG_BYTES;
  }

  sealRtp(header: Uint8Array, body: Uint8Array, out: Uint8Array, roc: number, sequenceNumber: number): number {
    const end = header.length + body.length;
    const cipher = createCipheriv(ALGORITHM, this.#rtpKey, this.#rtpIv(readUint32(header, 8), roc, sequenceNumber));
    cipher.setAAD(header);
    out.set(header);
    out.set(cipher.update(body), header.length);
    cipher.final();
    out.set(cipher.getAuthTag(), end);
    return end + TAG_BYTES;
  }

  decryptRtp(data: Uint8Array, headerLength: number, length: number, roc: number, sequenceNumber: number): number {
    const end = length - TAG_BYTES;
    if (end < headerLength) return -1;
    const iv = this.#rtpIv(readUint32(data, 8), roc, sequenceNumber);
    const aad = data.subarray(0, headerLength);
    return open(this.#rtpKey, iv, aad, data, headerLength, end) ? end : -1;
  }

  encryptRtcp(data: Uint8Array, length: number, index: number): number {
    const cipher = createCipheriv(ALGORITHM, this.#rtcpKey, this.#rtcpIv(readUint32(data, 4), index));
    cipher.setAAD(this.#rtcpHeaderAndIndex(data, index));
    data.set(cipher.update(data.subarray(RTCP_HEADER_BYTES, length)), RTCP_HEADER_BYTES);
    cipher.final();
    data.set(cipher.getAuthTag(), length);
    writeUint32(data, length + TAG_BYTES, index | 0x80000000);
    return length + TAG_BYTES + INDEX_BYTES;
  }

  decryptRtcp(data: Uint8Array, length: number, index: number): number {
    const end = length - TAG_BYTES - INDEX_BYTES;
    if (end < RTCP_HEADER_BYTES) return -1;
    const iv = this.#rtcpIv(readUint32(data, 4), index);
    const aad = this.#rtcpHeaderAndIndex(data, index);
    return open(this.#rtcpKey, iv, aad, data, RTCP_HEADER_BYTES, end) ? end : -1;
  }

  rtcpIndexOffset(length: number): number {
    return length - INDEX_BYTES;
  }

  /** The garbage collector releases the keys. */
  close(): void {}

  /** §17: the E flag and index are authenticated after the header, although they are sent after the tag. */
  #rtcpHeaderAndIndex(data: Uint8Array, index: number): Uint8Array {
    for (let i = 0; i < RTCP_HEADER_BYTES; i++) this.#rtcpAad[i] = readUint8(data, i);
    writeUint32(this.#rtcpAad, RTCP_HEADER_BYTES, index | 0x80000000);
    return this.#rtcpAad;
  }
}

function open(key: KeyObject, iv: Uint8Array, aad: Uint8Array, data: Uint8Array, from: number, end: number): boolean {
  const decipher = createDecipheriv(ALGORITHM, key, iv);
  decipher.setAAD(aad);
  decipher.setAuthTag(data.subarray(end, end + TAG_BYTES));
  const plain = decipher.update(data.subarray(from, end));
  try {
    decipher.final();
  } catch {
    return false;
  }
  data.set(plain, from);
  return true;
}
