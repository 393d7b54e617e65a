/** Records of DTLS 1.2 that AES-128-GCM protects (RFC 5288), as they are after the handshake. */
import { createCipheriv, createDecipheriv } from "node:crypto";

export const RECORD_HEADER_BYTES = 13;
export const CONTENT_TYPE = { alert: 21, handshake: 22, applicationData: 23 } as const;

const VERSION = 0xfefd;
/** The epoch of everything after the handshake. */
const EPOCH = 1;
const EXPLICIT_NONCE_BYTES = 8;
const TAG_BYTES = 16;
const OVERHEAD_BYTES = RECORD_HEADER_BYTES + EXPLICIT_NONCE_BYTES + TAG_BYTES;
const CIPHER = "aes-128-gcm";

/** The key of one direction. */
export type RecordKey = { key: Uint8Array; salt: Uint8Array };

/** Calls `each` with every whole record of the datagram. */
export function eachRecord(datagram: Buffer, each: (record: Buffer, epoch: number) => void): void {
  for (let at = 0; at + RECORD_HEADER_BYTES <= datagram.length; ) {
    const end = at + RECORD_HEADER_BYTES + datagram.readUInt16BE(at + 11);
    if (end > datagram.length) return;
    each(datagram.subarray(at, end), datagram.readUInt16BE(at + 3));
    at = end;
  }
}

/** Returns the content; null for a record that is not authentic. */
export function openRecord(record: Buffer, { key, salt }: RecordKey): Buffer | null {
  const start = RECORD_HEADER_BYTES + EXPLICIT_NONCE_BYTES;
  const end = record.length - TAG_BYTES;
  if (end < start) return null;
  const nonce = Buffer.concat([salt, record.subarray(RECORD_HEADER_BYTES, start)]);
  const decipher = createDecipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  decipher.setAuthTag(record.subarray(end)).setAAD(additionalData(record, end - start));
  const plain = decipher.update(record.subarray(start, end));
  try {
    decipher.final();
    return plain;
  } catch {
    return null;
  }
}

/** `number` must never be used twice with a key. */
export function sealRecord(contentType: number, number: number, content: Uint8Array, { key, salt }: RecordKey): Buffer {
  const record = Buffer.alloc(content.length + OVERHEAD_BYTES);
  record[0] = contentType;
  record.writeUInt16BE(VERSION, 1);
  record.writeUInt16BE(EPOCH, 3);
  record.writeUIntBE(number, 5, 6);
  record.writeUInt16BE(record.length - RECORD_HEADER_BYTES, 11);
  // The explicit half of the nonce is the epoch and the number.
  const body = RECORD_HEADER_BYTES + EXPLICIT_NONCE_BYTES;
  record.copy(record, RECORD_HEADER_BYTES, 3, 11);
  const nonce = Buffer.concat([salt, record.subarray(RECORD_HEADER_BYTES, body)]);
  const cipher = createCipheriv(CIPHER, key, nonce, { authTagLength: TAG_BYTES });
  cipher.setAAD(additionalData(record, content.length));
  cipher.update(content).copy(record, body);
  cipher.final();
  cipher.getAuthTag().copy(record, body + content.length);
  return record;
}

/** Epoch and number, content type, version, and the length of the content. */
function additionalData(record: Buffer, contentBytes: number): Buffer {
  const data = Buffer.alloc(RECORD_HEADER_BYTES);
  record.copy(data, 0, 3, 11);
  record.copy(data, 8, 0, 3);
  data.writeUInt16BE(contentBytes, 11);
  return data;
}
