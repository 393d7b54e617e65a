// Frames of H.264 from RTP (RFC 6184), as MP4 files hold them: every NAL unit after its length.

import { h264Size } from "../codec/h264.ts";
import { readUint8, readUint16 } from "../rtp/bytes.ts";
import { concat, type Depacketizer, type Span, spanOf, viewOf } from "./frame.ts";

const NAL = { idr: 5, sps: 7, pps: 8, delimiter: 9, stapA: 24, fuA: 28 } as const;

export class H264Frames implements Depacketizer {
  /** The newest parameter sets, empty before the first. */
  sps = new Uint8Array(0);
  pps = new Uint8Array(0);

  assemble(payloads: Span[]): ReturnType<Depacketizer["assemble"]> {
    const units = unitsOf(payloads.map(viewOf));
    if (!units) return null;
    let keyframe = false;
    const kept: Span[] = [];
    for (const pieces of units) {
      const [unit] = pieces as [Uint8Array];
      const type = readUint8(unit, 0) & 0x1f;
      if (type === NAL.delimiter) continue;
      if (type === NAL.idr) keyframe = true;
      if (type === NAL.sps) this.sps = new Uint8Array(concat(pieces));
      if (type === NAL.pps) this.pps = new Uint8Array(concat(pieces));
      kept.push(lengthBefore(pieces));
      for (const piece of pieces) kept.push(spanOf(piece));
    }
    if (kept.length === 0) return null;
    if (keyframe && (this.sps.length === 0 || this.pps.length === 0)) return null;
    const size = keyframe ? h264Size(this.sps) : { width: 0, height: 0 };
    return { spans: kept, keyframe, ...size };
  }
}

function lengthBefore(pieces: readonly Uint8Array[]): Span {
  let length = 0;
  for (const piece of pieces) length += piece.length;
  return spanOf(Uint8Array.of(length >>> 24, length >>> 16, length >>> 8, length));
}

/** NAL units as lists of fragments, the first of which begins with the header; null when a fragment does not fit. */
function unitsOf(payloads: readonly Uint8Array[]): Uint8Array[][] | null {
  const units: Uint8Array[][] = [];
  let pieces: Uint8Array[] | null = null;
  for (const payload of payloads) {
    if (payload.length < 2) return null;
    const type = readUint8(payload, 0) & 0x1f;
    if (type === NAL.fuA) {
      const header = readUint8(payload, 1);
      if (header & 0x80) pieces = [Uint8Array.of((readUint8(payload, 0) & 0xe0) | (header & 0x1f))];
      if (!pieces) return null;
      pieces.push(payload.subarray(2));
      if (header & 0x40) {
        units.push(pieces);
        pieces = null;
      }
      continue;
    }
    if (pieces) return null;
    if (type === NAL.stapA) {
      const inside = unitsInAggregate(payload);
      if (!inside) return null;
      for (const unit of inside) units.push([unit]);
    } else if (type > 0 && type < NAL.stapA) units.push([payload]);
    else return null;
  }
  return pieces ? null : units;
}

function unitsInAggregate(payload: Uint8Array): Uint8Array[] | null {
  const units: Uint8Array[] = [];
  for (let at = 1; at < payload.length; ) {
    if (at + 2 > payload.length) return null;
    const size = readUint16(payload, at);
    if (size === 0 || at + 2 + size > payload.length) return null;
    units.push(payload.subarray(at + 2, at + 2 + size));
    at += 2 + size;
  }
  return units;
}
