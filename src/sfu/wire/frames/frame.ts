/** A stretch of bytes where they lie. What is only copied on is named so: a view of memory costs more than the copy. */
export type Span = { data: Uint8Array; at: number; length: number };

/** What a recording is made of: whole encoded pictures, or packets of sound. */
export type EncodedFrame = {
  /** RTP timestamp, unwrapped, in units of the clock rate. */
  timestamp: number;
  keyframe: boolean;
  /** One after the other. */
  spans: readonly Span[];
  /** Of a keyframe that tells; 0 when it does not. */
  width: number;
  height: number;
};

/** How the packets of one frame become the bytes that a file holds. */
export interface Depacketizer {
  /** The payloads of one frame, in order and complete, to be kept; null when they make no frame that could be decoded. */
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

/** Without a view of either. */
export function copy(data: Uint8Array, from: number, to: number, target: Uint8Array, targetAt: number): void {
  copyBytes.call(data, target, targetAt, from, to);
}

export function lengthOf(spans: readonly Span[]): number {
  let length = 0;
  for (const span of spans) length += span.length;
  return length;
}

export function join(spans: readonly Span[]): Uint8Array {
  const out = new Uint8Array(lengthOf(spans));
  let end = 0;
  for (const { data, at, length } of spans) {
    copy(data, at, at + length, out, end);
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
