// H.264 over RTP (RFC 6184): the start of a keyframe, and the frame size from the sequence parameter set.

import { readUint8, readUint16 } from "../rtp/bytes.ts";
import { BitReader } from "./bit-reader.ts";

const NAL = { idr: 5, sps: 7, stapA: 24, fuA: 28, fuB: 29 } as const;
const MAX_SPS_BYTES = 256;
/** Profiles whose parameter sets have a chroma format and scaling lists. */
const HIGH_PROFILES = new Set([100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134]);

/**
 * Browsers send the sequence parameter set before every IDR frame. A stream without in-band parameter sets is recognised by
 * its IDR slices; `KeyframeStart` finds the first of them.
 */
export function startsH264Keyframe(data: Uint8Array, offset: number, payloadLength: number): boolean {
  if (payloadLength < 2) return false;
  const type = readUint8(data, offset) & 0x1f;
  switch (type) {
    case NAL.sps:
    case NAL.idr:
      return true;
    case NAL.stapA:
      return findInAggregate(data, offset + 1, offset + payloadLength, isKeyType) >= 0;
    case NAL.fuA:
    case NAL.fuB: {
      const header = readUint8(data, offset + 1);
      return (header & 0x80) !== 0 && isKeyType(header & 0x1f);
    }
    default:
      return false;
  }
}

/** Is true for a sequence parameter set, alone or in an aggregate. */
export function hasH264Parameters(data: Uint8Array, offset: number, payloadLength: number): boolean {
  if (payloadLength < 2) return false;
  const type = readUint8(data, offset) & 0x1f;
  return type === NAL.stapA ? findInAggregate(data, offset + 1, offset + payloadLength, isSps) >= 0 : isSps(type);
}

/** The frame height by the parameter set in an RTP payload; 0 when there is none, or it is unreadable. */
export function h264Height(data: Uint8Array, offset: number, payloadLength: number): number {
  if (payloadLength < 2) return 0;
  const end = offset + payloadLength;
  const type = readUint8(data, offset) & 0x1f;
  if (isSps(type)) return sizeOf(withoutEscapes(data, offset + 1, end)).height;
  const at = type === NAL.stapA ? findInAggregate(data, offset + 1, end, isSps) : -1;
  return at < 0 ? 0 : sizeOf(withoutEscapes(data, at + 3, at + 2 + readUint16(data, at))).height;
}

/** Returns where the first wanted unit begins, with its size of two bytes; −1 when there is none. */
function findInAggregate(data: Uint8Array, from: number, end: number, wanted: (type: number) => boolean): number {
  for (let at = from; at + 3 <= end; ) {
    const size = readUint16(data, at);
    if (size === 0 || at + 2 + size > end) return -1;
    if (wanted(readUint8(data, at + 2) & 0x1f)) return at;
    at += 2 + size;
  }
  return -1;
}

function isKeyType(type: number): boolean {
  return type === NAL.sps || type === NAL.idr;
}

function isSps(type: number): boolean {
  return type === NAL.sps;
}

/** Removes the 3 of every 00 00 03, which was inserted so that no bytes look like a start code. */
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

/** The frame size in a sequence parameter set without its start code; zeros when it is unreadable. */
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
  skipPicOrderCount(reader);
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

function skipPicOrderCount(reader: BitReader): void {
  const type = reader.unsigned();
  if (type === 0) reader.unsigned();
  if (type !== 1) return;
  reader.flag();
  reader.signed();
  reader.signed();
  const cycle = reader.unsigned();
  for (let i = 0; i < cycle && !reader.overrun; i++) reader.signed();
}
