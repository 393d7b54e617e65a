// VP9 payload descriptor (RFC 9628): a keyframe starts where nothing is predicted from another picture (P = 0), in
// the first packet (B) of the lowest spatial layer.

import { readUint8, readUint16 } from "../rtp/bytes.ts";

export function startsVp9Keyframe(data: Uint8Array, offset: number, payloadLength: number): boolean {
  if (payloadLength < 1) return false;
  const end = offset + payloadLength;
  const first = readUint8(data, offset);
  const hasPictureId = (first & 0x80) !== 0;
  const predicted = (first & 0x40) !== 0;
  const hasLayers = (first & 0x20) !== 0;
  const startsFrame = (first & 0x08) !== 0;
  if (predicted || !startsFrame) return false;
  if (!hasLayers) return true;
  let at = offset + 1;
  if (hasPictureId) {
    if (at >= end) return false;
    at += readUint8(data, at) & 0x80 ? 2 : 1;
  }
  if (at >= end) return false;
  return ((readUint8(data, at) >> 1) & 0x07) === 0;
}

// The height of a VP9 picture, from the scalability structure browsers send with every keyframe (RFC 9628 §4.2.1).

/** Of the largest spatial layer; 0 when the packet does not tell. */
export function vp9Height(data: Uint8Array, offset: number, payloadLength: number): number {
  const end = offset + payloadLength;
  if (payloadLength < 2) return 0;
  const first = readUint8(data, offset);
  const has = (bit: number) => (first & bit) !== 0;
  const flexible = has(0x10);
  if (!has(0x02)) return 0;
  let at = offset + 1;
  if (has(0x80)) at += readUint8(data, at) & 0x80 ? 2 : 1;
  if (has(0x20)) at += flexible ? 1 : 2;
  if (flexible && has(0x40)) {
    // Up to three reference indices; the lowest bit says that another follows.
    for (let references = 0; references < 3 && at < end; references++) if ((readUint8(data, at++) & 1) === 0) break;
  }
  if (at >= end) return 0;
  const structure = readUint8(data, at++);
  const layers = (structure >> 5) + 1;
  if ((structure & 0x10) === 0 || at + layers * 4 > end) return 0;
  return readUint16(data, at + (layers - 1) * 4 + 2);
}
