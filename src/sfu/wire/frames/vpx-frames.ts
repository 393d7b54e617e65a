// VP8 (RFC 7741) and VP9 (RFC 9628) over RTP back to frames: what stands behind the descriptors, one after the other.

import { BitReader } from "../codec/bit-reader.ts";
import { Vp8Descriptor } from "../codec/vp8.ts";
import { readUint8, readUint16 } from "../rtp/bytes.ts";
import { concat, type Depacketizer, type Span, spanOf, viewOf } from "./frame.ts";

export class Vp8Frames implements Depacketizer {
  readonly #descriptor = new Vp8Descriptor();

  assemble(payloads: Span[]): ReturnType<Depacketizer["assemble"]> {
    const descriptor = this.#descriptor;
    let keyframe = false;
    let width = 0;
    let height = 0;
    for (let i = 0; i < payloads.length; i++) {
      const payload = payloads[i] as Span;
      if (!descriptor.parse(payload.data, payload.at, payload.length)) return null;
      if (i === 0) {
        if (!descriptor.startsFrame) return null;
        ({ keyframe, width, height } = descriptor);
      }
      payload.at += descriptor.length;
      payload.length -= descriptor.length;
    }
    return { spans: payloads, keyframe, width, height };
  }
}

type Vp9Packet = { at: number; starts: boolean; predicted: boolean; spatial: number; width: number; height: number };

export class Vp9Frames implements Depacketizer {
  assemble(payloads: Span[]): ReturnType<Depacketizer["assemble"]> {
    /** One for each spatial layer of the picture. */
    const frames: Uint8Array[][] = [];
    let keyframe = false;
    let width = 0;
    let height = 0;
    for (const [i, span] of payloads.entries()) {
      const payload = viewOf(span);
      const packet = readVp9(payload);
      if (!packet || (i === 0 && !packet.starts)) return null;
      if (i === 0) keyframe = !packet.predicted && packet.spatial === 0;
      if (packet.width > 0) ({ width, height } = packet);
      if (packet.starts) frames.push([]);
      frames.at(-1)?.push(payload.subarray(packet.at));
    }
    const data = superframe(frames.map(concat));
    if (keyframe && width === 0) ({ width, height } = keyframeSize(data));
    return { spans: [spanOf(data)], keyframe, width, height };
  }
}

/** From the picture's own header (VP9 bitstream §6.2), where no packet tells; of profile 0, which is what browsers send. */
function keyframeSize(data: Uint8Array): { width: number; height: number } {
  const reader = new BitReader(data, 0, Math.min(data.length, 16));
  const profile = reader.bits(4) & 3;
  reader.bits(4);
  const isSynchronised = reader.bits(24) === 0x498342;
  const isRgb = reader.bits(3) === 7;
  if (profile !== 0 || !isSynchronised || isRgb) return { width: 0, height: 0 };
  reader.bits(1);
  return { width: reader.bits(16) + 1, height: reader.bits(16) + 1 };
}

/** Several frames in one need an index behind them (VP9 bitstream, annex B), or decoders see only the first. */
function superframe(frames: readonly Uint8Array[]): Uint8Array {
  const [only] = frames;
  if (frames.length < 2) return only ?? new Uint8Array(0);
  const marker = 0xc0 | (3 << 3) | (frames.length - 1);
  const sizes = frames.map(({ length }) => Uint8Array.of(length, length >>> 8, length >>> 16, length >>> 24));
  return concat([...frames, Uint8Array.of(marker), ...sizes, Uint8Array.of(marker)]);
}

/** Null for a descriptor that is longer than its packet. */
function readVp9(payload: Uint8Array): Vp9Packet | null {
  const end = payload.length;
  const first = readUint8(payload, 0);
  const flexible = (first & 0x10) !== 0;
  const predicted = (first & 0x40) !== 0;
  let at = 1;
  let spatial = 0;
  let width = 0;
  let height = 0;
  if (first & 0x80) at += readUint8(payload, at) & 0x80 ? 2 : 1;
  if (first & 0x20) {
    spatial = (readUint8(payload, at) >> 1) & 7;
    at += flexible ? 1 : 2;
  }
  if (flexible && predicted) {
    for (let references = 0; references < 3 && at < end; references++) if ((readUint8(payload, at++) & 1) === 0) break;
  }
  if (first & 0x02 && at < end) {
    const structure = readUint8(payload, at++);
    const layers = (structure >> 5) + 1;
    if (structure & 0x10) {
      if (at + layers * 4 > end) return null;
      width = readUint16(payload, at + (layers - 1) * 4);
      height = readUint16(payload, at + (layers - 1) * 4 + 2);
      at += layers * 4;
    }
    if (structure & 0x08) {
      const pictures = readUint8(payload, at++);
      for (let i = 0; i < pictures && at < end; i++) at += 1 + ((readUint8(payload, at) >> 2) & 3);
    }
  }
  return at < end ? { at, starts: (first & 0x08) !== 0, predicted, spatial, width, height } : null;
}
