// H.264 over RTP (RFC 6184): may a packet begin a keyframe? The sequence parameter set does, as browsers send it
// before every IDR; a stream without in-band sets is recognised by its IDR slices (`tracks/keyframe-start.ts` finds the first).

import { readUint8, readUint16 } from "../rtp/bytes.ts";

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
