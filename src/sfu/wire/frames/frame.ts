/** A range of bytes. Bytes that are only copied are named this way, because creating a subarray costs more than the copy. */
export type Span = { data: Uint8Array; at: number; length: number };

/** A complete encoded video frame, or a packet of audio. */
export type EncodedFrame = {
  /** The RTP timestamp. */
  timestamp: number;
  keyframe: boolean;
  spans: readonly Span[];
  /** 0 unless it is a keyframe with a size. */
  width: number;
  height: number;
};

/** Makes the bytes that a file holds from the packets of one frame. */
export interface Depacketizer {
  /** Takes the complete payloads of one frame in order; returns null when they make no decodable frame. */
  assemble(payloads: Span[]): { spans: readonly Span[]; keyframe: boolean; width: number; height: number } | null;
}

export const spanOf = (data: Uint8Array): Span => ({ data, at: 0, length: data.length });

export const viewOf = ({ data, at, length }: Span): Uint8Array => data.subarray(at, at + length);

const copyBytes = Buffer.prototype.copy as (
  this: Uint8Array,
  target: Uint8Array,
  targetAt: number,
  from: number,
  to: number,
) => number;

/** Copies without creating a subarray. */
export function copyRange(data: Uint8Array, from: number, to: number, target: Uint8Array, targetAt: number): void {
  copyBytes.call(data, target, targetAt, from, to);
}

export function spansLength(spans: readonly Span[]): number {
  let length = 0;
  for (const span of spans) length += span.length;
  return length;
}

export function concatSpans(spans: readonly Span[]): Uint8Array {
  const out = new Uint8Array(spansLength(spans));
  let end = 0;
  for (const { data, at, length } of spans) {
    copyRange(data, at, at + length, out, end);
    end += length;
  }
  return out;
}

export function concat(parts: readonly Uint8Array[]): Uint8Array {
  let length = 0;
  for (const part of parts) length += part.length;
  const out = new Uint8Array(length);
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}
