// H.264 over RTP (RFC 6184): may a packet begin a keyframe? The sequence parameter set does, as browsers send it
// before every IDR; a stream without in-band sets is recognised by its IDR slices (`tracks/keyframe-start.ts` finds the first).

import { readUint8, readUint16 } from "../rtp/bytes.ts";
import { BitReader } from "./bit-reader.ts";

const NAL = { slice: 1, idr: 5, sps: 7, stapA: 24, fuA: 28, fuB: 29 } as const;

export function startsH264Keyframe(data: Uint8Array, offset: number, payloadLength: number): boolean {
  if (payloadLength < 2) return false;
  const end = offset + payloadLength;
  const type = readUint8(data, offset) & 0x1f;
  switch (type) {
    case NAL.sps:
    case NAL.idr:
      return true;
    case NAL.stapA:
      return aggregateHas(data, offset + 1, end, isKeyType);
    case NAL.fuA:
    case NAL.fuB: {
      const header = readUint8(data, offset + 1);
      return (header & 0x80) !== 0 && isKeyType(header & 0x1f);
    }
    default:
      return false;
  }
}

/** A sequence parameter set, alone or in an aggregate. */
export function hasH264Parameters(data: Uint8Array, offset: number, payloadLength: number): boolean {
  if (payloadLength < 2) return false;
  const type = readUint8(data, offset) & 0x1f;
  if (type === NAL.stapA) return aggregateHas(data, offset + 1, offset + payloadLength, (unit) => unit === NAL.sps);
  return type === NAL.sps;
}

function aggregateHas(data: Uint8Array, from: number, end: number, wanted: (type: number) => boolean): boolean {
  for (let at = from; at + 3 <= end; ) {
    const size = readUint16(data, at);
    if (size === 0 || at + 2 + size > end) return false;
    if (wanted(readUint8(data, at + 2) & 0x1f)) return true;
    at += 2 + size;
  }
  return false;
}

function isKeyType(type: number): boolean {
  return type === NAL.sps || type === NAL.idr;
}

// The height of an H.264 picture, from the sequence parameter set (ITU-T H.264 §7.3.2.1.1).

const SPS = 7;
const STAP_A = 24;
const MAX_SPS_BYTES = 256;
/** Profiles that tell their chroma format and scaling lists. */
const HIGH_PROFILES = new Set([100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134]);

/** Of the parameter set in an RTP payload (alone, or in a STAP-A); 0 when there is none, or it is unreadable. */
export function h264Height(data: Uint8Array, offset: number, payloadLength: number): number {
  if (payloadLength < 2) return 0;
  const end = offset + payloadLength;
  const type = readUint8(data, offset) & 0x1f;
  if (type === SPS) return sizeOf(withoutEscapes(data, offset + 1, end)).height;
  if (type !== STAP_A) return 0;
  for (let at = offset + 1; at + 3 <= end; ) {
    const size = readUint16(data, at);
    if (size === 0 || at + 2 + size > end) return 0;
    if ((readUint8(data, at + 2) & 0x1f) === SPS) return sizeOf(withoutEscapes(data, at + 3, at + 2 + size)).height;
    at += 2 + size;
  }
  return 0;
}

/** Takes out the 3 of every 00 00 03, put there lest the bytes look like a start code. */
function withoutEscapes(data: Uint8Array, from: number, to: number): Uint8Array {
  const out = new Uint8Array(Math.min(to - from, MAX_SPS_BYTES));
  let length = 0;
  let zeros = 0;
  for (let at = from; at < to && length < out.length; at++) {
    const byte = readUint8(data, at);
    if (zeros >= 2 && byte === 3) {
      zeros = 0;
      continue;
    }
    zeros = byte === 0 ? zeros + 1 : 0;
    out[length++] = byte;
  }
  return out.subarray(0, length);
}

/** Of a sequence parameter set without its start code; zeros when it is unreadable. */
export function h264Size(sps: Uint8Array): { width: number; height: number } {
  return sizeOf(withoutEscapes(sps, 1, sps.length));
}

function sizeOf(sps: Uint8Array): { width: number; height: number } {
  const reader = new BitReader(sps, 0, sps.length);
  const profile = reader.bits(8);
  reader.bits(16);
  reader.unsigned();
  const chroma = HIGH_PROFILES.has(profile) ? skipHighProfile(reader) : 1;
  reader.unsigned();
  skipPictureOrder(reader);
  reader.unsigned();
  reader.flag();
  const columns = reader.unsigned() + 1;
  const mapUnits = reader.unsigned() + 1;
  const framesOnly = reader.flag();
  if (!framesOnly) reader.flag();
  reader.flag();
  let croppedColumns = 0;
  let croppedLines = 0;
  if (reader.flag()) {
    croppedColumns = (reader.unsigned() + reader.unsigned()) * (chroma === 1 || chroma === 2 ? 2 : 1);
    croppedLines = (reader.unsigned() + reader.unsigned()) * (chroma === 1 ? 2 : 1) * (framesOnly ? 1 : 2);
  }
  const width = columns * 16 - croppedColumns;
  const height = mapUnits * 16 * (framesOnly ? 1 : 2) - croppedLines;
  const isUnreadable = reader.overrun || height <= 0 || height > 16_384 || width <= 0 || width > 16_384;
  return isUnreadable ? { width: 0, height: 0 } : { width, height };
}

function skipHighProfile(reader: BitReader): number {
  const chroma = reader.unsigned();
  if (chroma === 3) reader.flag();
  reader.unsigned();
  reader.unsigned();
  reader.flag();
  if (reader.flag()) {
    for (let list = 0; list < (chroma === 3 ? 12 : 8); list++)
      if (reader.flag()) skipScalingList(reader, list < 6 ? 16 : 64);
  }
  return chroma;
}

function skipScalingList(reader: BitReader, size: number): void {
  let last = 8;
  let next = 8;
  for (let i = 0; i < size; i++) {
    if (next !== 0) next = (last + reader.signed() + 256) % 256;
    if (next !== 0) last = next;
  }
}

function skipPictureOrder(reader: BitReader): void {
  const type = reader.unsigned();
  if (type === 0) reader.unsigned();
  if (type !== 1) return;
  reader.flag();
  reader.signed();
  reader.signed();
  const cycle = reader.unsigned();
  for (let i = 0; i < cycle && !reader.overrun; i++) reader.signed();
}
