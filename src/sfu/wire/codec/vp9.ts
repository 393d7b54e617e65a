// VP9 payload descriptor (RFC 9628).

import { readUint8, readUint16 } from "../rtp/bytes.ts";

/** A keyframe starts in the first packet (B) of the lowest spatial layer of a frame without inter-prediction (P = 0). */
export function startsVp9Keyframe(data: Uint8Array, offset: number, payloadLength: number): boolean {
  if (payloadLength < 1) return false;
  const end = offset + payloadLength;
  const first = readUint8(data, offset);
  const predicted = (first & 0x40) !== 0;
  const startsFrame = (first & 0x08) !== 0;
  if (predicted || !startsFrame) return false;
  const hasLayers = (first & 0x20) !== 0;
  if (!hasLayers) return true;
  let at = offset + 1;
  if (first & 0x80) {
    if (at >= end) return false;
    at += readUint8(data, at) & 0x80 ? 2 : 1;
  }
  if (at >= end) return false;
  return ((readUint8(data, at) >> 1) & 0x07) === 0;
}

/** The height of the largest spatial layer, from the scalability structure of keyframes; 0 when the packet has none. */
export function vp9Height(data: Uint8Array, offset: number, payloadLength: number): number {
  const end = offset + payloadLength;
  if (payloadLength < 2) return 0;
  const first = readUint8(data, offset);
  if ((first & 0x02) === 0) return 0;
  const { at: structureAt } = skipToStructure(data, offset, end);
  if (structureAt >= end) return 0;
  return readStructure(data, structureAt, end)?.height ?? 0;
}

type Vp9Packet = {
  /** Offset of the VP9 data. */
  at: number;
  starts: boolean;
  predicted: boolean;
  spatial: number;
  /** 0 without a scalability structure. */
  width: number;
  height: number;
};

/** Returns null for a descriptor that is longer than its packet. */
export function readVp9Packet(data: Uint8Array, offset: number, end: number): Vp9Packet | null {
  const first = readUint8(data, offset);
  let { at, spatial } = skipToStructure(data, offset, end);
  let size = { width: 0, height: 0 };
  if (first & 0x02 && at < end) {
    const structure = readStructure(data, at, end);
    if (!structure) return null;
    ({ at, ...size } = structure);
  }
  if (at >= end) return null;
  return { at, starts: (first & 0x08) !== 0, predicted: (first & 0x40) !== 0, spatial, ...size };
}

type Vp9Layers = {
  spatial: number;
  temporal: number;
  /** Higher temporal layers of the next frames refer to none before this one. */
  switchesUp: boolean;
  /** The packet is the last one of its layer's frame. */
  endsFrame: boolean;
  /** The number of spatial layers and their heights; 0 without a scalability structure. */
  count: number;
  heights: number[];
};

/** Returns null for a packet that names no layer. */
export function readVp9Layers(data: Uint8Array, offset: number, payloadLength: number): Vp9Layers | null {
  const end = offset + payloadLength;
  if (payloadLength < 2) return null;
  const first = readUint8(data, offset);
  if ((first & 0x20) === 0) return null;
  const { at, spatial } = skipToStructure(data, offset, end);
  if (at > end) return null;
  const layerAt = offset + 1 + (first & 0x80 ? (readUint8(data, offset + 1) & 0x80 ? 2 : 1) : 0);
  const indices = readUint8(data, layerAt);
  const layers: Vp9Layers = {
    spatial,
    temporal: indices >> 5,
    switchesUp: (indices & 0x10) !== 0,
    endsFrame: (first & 0x04) !== 0,
    count: 0,
    heights: [],
  };
  if ((first & 0x02) === 0 || at >= end) return layers;
  const structure = readUint8(data, at);
  layers.count = (structure >> 5) + 1;
  if ((structure & 0x10) === 0 || at + 1 + layers.count * 4 > end) return layers;
  for (let n = 0; n < layers.count; n++) layers.heights.push(readUint16(data, at + 1 + n * 4 + 2));
  return layers;
}

function skipToStructure(data: Uint8Array, offset: number, end: number): { at: number; spatial: number } {
  const first = readUint8(data, offset);
  const flexible = (first & 0x10) !== 0;
  let at = offset + 1;
  let spatial = 0;
  if (first & 0x80) at += readUint8(data, at) & 0x80 ? 2 : 1;
  if (first & 0x20) {
    spatial = (readUint8(data, at) >> 1) & 7;
    at += flexible ? 1 : 2;
  }
  if (flexible && first & 0x40) {
    // There are up to three reference indices; the lowest bit says that another follows.
    for (let references = 0; references < 3 && at < end; references++) if ((readUint8(data, at++) & 1) === 0) break;
  }
  return { at, spatial };
}

function readStructure(
  data: Uint8Array,
  start: number,
  end: number,
): Pick<Vp9Packet, "at" | "width" | "height"> | null {
  let at = start;
  const structure = readUint8(data, at++);
  const layers = (structure >> 5) + 1;
  let width = 0;
  let height = 0;
  if (structure & 0x10) {
    if (at + layers * 4 > end) return null;
    width = readUint16(data, at + (layers - 1) * 4);
    height = readUint16(data, at + (layers - 1) * 4 + 2);
    at += layers * 4;
  }
  if (structure & 0x08) {
    const frames = readUint8(data, at++);
    for (let i = 0; i < frames && at < end; i++) at += 1 + ((readUint8(data, at) >> 2) & 3);
  }
  return { at, width, height };
}
