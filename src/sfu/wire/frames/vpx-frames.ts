// Frames of VP8 (RFC 7741) and VP9 (RFC 9628) from RTP: the payloads without their descriptors, concatenated.

import { BitReader } from "../codec/bit-reader.ts";
import { Vp8Descriptor } from "../codec/vp8.ts";
import { readVp9Packet } from "../codec/vp9.ts";
import { concat, type Depacketizer, type Span, spanOf } from "./frame.ts";

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

/** The index after the frames has three bits for their number. */
const MAX_SUPERFRAME = 8;

export class Vp9Frames implements Depacketizer {
  assemble(payloads: Span[]): ReturnType<Depacketizer["assemble"]> {
    /** One entry per spatial layer of the frame. */
    const frames: Uint8Array[][] = [];
    let keyframe = false;
    let width = 0;
    let height = 0;
    for (const [i, span] of payloads.entries()) {
      const packet = readVp9Packet(span.data, span.at, span.at + span.length);
      if (!packet || (i === 0 && !packet.starts)) return null;
      if (i === 0) keyframe = !packet.predicted && packet.spatial === 0;
      if (packet.width > 0) ({ width, height } = packet);
      if (packet.starts) frames.push([]);
      frames.at(-1)?.push(span.data.subarray(packet.at, span.at + span.length));
    }
    if (frames.length > MAX_SUPERFRAME) return null;
    const data = superframe(frames.map(concat));
    if (keyframe && width === 0) ({ width, height } = keyframeSize(data));
    return { spans: [spanOf(data)], keyframe, width, height };
  }
}

/** The size in the frame header (VP9 bitstream §6.2) of profile 0, which browsers send; for packets without one. */
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

/** Several frames need an index after them (VP9 bitstream, annex B), or decoders see only the first. */
function superframe(frames: readonly Uint8Array[]): Uint8Array {
  const [only] = frames;
  if (frames.length < 2) return only ?? new Uint8Array(0);
  const marker = 0xc0 | (3 << 3) | (frames.length - 1);
  const sizes = frames.map(({ length }) => Uint8Array.of(length, length >>> 8, length >>> 16, length >>> 24));
  return concat([...frames, Uint8Array.of(marker), ...sizes, Uint8Array.of(marker)]);
}
