// VP9 payload descriptor (RFC 9628): a keyframe starts where nothing is predicted from another picture (P = 0), in
// the first packet (B) of the lowest spatial layer.

import { readUint8 } from "../rtp/bytes.ts";

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
