/** Protobuf's wire format, for messages that are validated before decoding, relayed without decoding, or few. */

export const VARINT = 0;
const FIXED64 = 1;
export const BYTES = 2;
const FIXED32 = 5;

export type WireType = typeof VARINT | typeof FIXED64 | typeof BYTES | typeof FIXED32;

const MAX_TAG = 2 ** 32;
const MAX_VARINT_BYTES = 10;

/** Returning false stops the reading. `value` has no tag and no length; a varint is passed as its bytes. */
type ReadField<B extends Uint8Array> = (field: number, wire: WireType, value: B) => boolean | undefined;

/** As `ReadField`, with the bounds of the value instead of a view of it, which costs more than reading most fields. */
type ReadFieldAt = (field: number, wire: WireType, start: number, end: number) => boolean | undefined;

export function eachField<B extends Uint8Array>(data: B, read: ReadField<B>): boolean {
  return eachFieldAt(data, 0, data.length, (field, wire, start, end) =>
    read(field, wire, data.subarray(start, end) as B),
  );
}

/**
 * Returns false for bytes that are not a message, and when `read` returns false. Input that decoders interpret
 * differently is rejected: groups, and tags or lengths beyond 32 bits, whose upper bits some decoders ignore.
 */
export function eachFieldAt(data: Uint8Array, from: number, to: number, read: ReadFieldAt): boolean {
  let at = from;
  while (at < to) {
    const tag = varintEnd(data, at, to);
    const key = tag === null ? MAX_TAG : numberOf(data, at, tag);
    if (tag === null || key >= MAX_TAG || key < 8) return false;
    at = tag;
    const wire = key % 8;
    let end: number | null;
    if (wire === VARINT) end = varintEnd(data, at, to);
    else if (wire === FIXED64) end = at + 8;
    else if (wire === FIXED32) end = at + 4;
    else if (wire === BYTES) {
      const start = varintEnd(data, at, to);
      const length = start === null ? MAX_TAG : numberOf(data, at, start);
      if (start === null || length >= MAX_TAG) return false;
      at = start;
      end = at + length;
    } else return false;
    if (end === null || end > to) return false;
    if (read(Math.floor(key / 8), wire, at, end) === false) return false;
    at = end;
  }
  return true;
}

/** The position after the varint; null when it is truncated or too long. */
function varintEnd(data: Uint8Array, start: number, to: number): number | null {
  const last = Math.min(to, start + MAX_VARINT_BYTES);
  for (let at = start; at < last; at++) if ((data[at] ?? 0) < 128) return at + 1;
  return null;
}

/** The value of a varint, exact up to 2^53. It is read in place, because a view of it costs more than its bytes. */
export function numberOf(data: Uint8Array, start = 0, end = data.length): number {
  let value = 0;
  let factor = 1;
  for (let at = start; at < end; at++) {
    value += ((data[at] as number) & 127) * factor;
    factor *= 128;
  }
  return value;
}

function varint(value: number): Uint8Array {
  const bytes: number[] = [];
  let rest = value;
  while (rest > 127) {
    bytes.push((rest & 127) | 128);
    rest = Math.floor(rest / 128);
  }
  return Uint8Array.from([...bytes, rest]);
}

export function writeField(field: number, wire: WireType, value: Uint8Array): Uint8Array {
  const tag = varint(field * 8 + wire);
  return concat(wire === BYTES ? [tag, varint(value.length), value] : [tag, value]);
}

const encoder = new TextEncoder();

export const writeText = (field: number, value: string) => writeField(field, BYTES, encoder.encode(value));
export const writeNumber = (field: number, value: number) => writeField(field, VARINT, varint(value));

export function concat(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(parts.reduce((length, part) => length + part.length, 0));
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}
