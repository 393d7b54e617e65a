// AV1 over RTP: the start of a keyframe, and the frame size from the sequence header OBU (AV1 §5.5).

import { readUint8 } from "../rtp/bytes.ts";
import { BitReader } from "./bit-reader.ts";

const SEQUENCE_HEADER = 1;

/** The N bit of the aggregation header marks the first packet of a new coded video sequence. */
export function startsAv1Keyframe(data: Uint8Array, offset: number, payloadLength: number): boolean {
  if (payloadLength < 2) return false;
  const header = readUint8(data, offset);
  // With the Z bit the packet continues an OBU of the previous one, so it cannot start a sequence.
  return (header & 0x08) !== 0 && (header & 0x80) === 0;
}

/** Returns 0 when the packet has no sequence header, or one with a decoder model (no browser sends it). */
export function av1Height(data: Uint8Array, offset: number, payloadLength: number): number {
  const end = offset + payloadLength;
  if (payloadLength < 3) return 0;
  const elements = (readUint8(data, offset) >> 4) & 3;
  let at = offset + 1;
  // A size precedes every element, except the last one when the header has their number.
  for (let element = 1; at < end && element <= 8; element++) {
    let size = end - at;
    if (elements !== element) {
      const leb = readLeb128(data, at, end);
      if (leb === undefined || leb.next + leb.value > end) return 0;
      size = leb.value;
      at = leb.next;
    }
    if (size > 1 && ((readUint8(data, at) >> 3) & 0x0f) === SEQUENCE_HEADER)
      return av1SequenceSize(data, at, size).height;
    at += size;
  }
  return 0;
}

export function readLeb128(
  data: Uint8Array,
  at: number,
  end = data.length,
): { value: number; next: number } | undefined {
  let value = 0;
  for (let i = 0; i < 4 && at + i < end; i++) {
    const byte = readUint8(data, at + i);
    value += (byte & 0x7f) * 2 ** (7 * i);
    if (byte < 0x80) return { value, next: at + i + 1 };
  }
  return undefined;
}

/** The frame size in the sequence header at `at`; zeros when it is unreadable. */
export function av1SequenceSize(data: Uint8Array, at: number, size: number): { width: number; height: number } {
  const header = readUint8(data, at);
  let from = at + 1 + (header & 0x04 ? 1 : 0);
  if (header & 0x02) from = readLeb128(data, from, at + size)?.next ?? at + size;
  const reader = new BitReader(data, from, Math.max(0, at + size - from));
  reader.bits(4);
  const reduced = reader.flag();
  if (reduced) {
    reader.bits(5);
  } else {
    const timing = reader.flag();
    if (timing) return { width: 0, height: 0 };
    const displayDelay = reader.flag();
    for (let points = reader.bits(5); points >= 0; points--) {
      reader.bits(12);
      if (reader.bits(5) > 7) reader.flag();
      if (displayDelay && reader.flag()) reader.bits(4);
    }
  }
  const widthBits = reader.bits(4) + 1;
  const heightBits = reader.bits(4) + 1;
  const width = reader.bits(widthBits) + 1;
  const height = reader.bits(heightBits) + 1;
  return reader.overrun ? { width: 0, height: 0 } : { width, height };
}
