/** The subset of DER (X.690) that certificate requests need. */
const TAG = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utf8: 0x0c,
  sequence: 0x30,
  set: 0x31,
  utcTime: 0x17,
  generalizedTime: 0x18,
} as const;

function element(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts);
  return Buffer.concat([Buffer.from([tag, ...lengthOf(content.length)]), content]);
}

function lengthOf(length: number): number[] {
  if (length < 128) return [length];
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest >>= 8) bytes.unshift(rest & 255);
  return [0x80 | bytes.length, ...bytes];
}

export const sequence = (...parts: Uint8Array[]): Buffer => element(TAG.sequence, ...parts);
export const set = (...parts: Uint8Array[]): Buffer => element(TAG.set, ...parts);
export const octets = (bytes: Uint8Array): Buffer => element(TAG.octetString, bytes);
export const bits = (bytes: Uint8Array): Buffer => element(TAG.bitString, Buffer.from([0]), bytes);
export const utf8 = (text: string): Buffer => element(TAG.utf8, Buffer.from(text));
export const isTrue = (): Buffer => element(TAG.boolean, Buffer.from([0xff]));

/** `[number]` as a constructed tag around other elements. */
export const tagged = (number: number, ...parts: Uint8Array[]): Buffer => element(0xa0 | number, ...parts);
/** `[number]` instead of the tag of a primitive. */
export const implicit = (number: number, bytes: Uint8Array): Buffer => element(0x80 | number, bytes);

export function integer(bytes: Uint8Array): Buffer {
  const isNegative = ((bytes[0] ?? 0) & 0x80) !== 0;
  return element(TAG.integer, Buffer.from(isNegative ? [0] : []), bytes);
}

export function oid(text: string): Buffer {
  const [first = 0, second = 0, ...rest] = text.split(".").map(Number);
  return element(TAG.oid, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

function base128(value: number): number[] {
  const bytes = [value & 0x7f];
  for (let rest = value >>> 7; rest > 0; rest >>>= 7) bytes.unshift(0x80 | (rest & 0x7f));
  return bytes;
}

export function time(at: number): Buffer {
  const digits = new Date(at).toISOString().replaceAll(/[-:T]|\.\d+/g, "");
  return new Date(at).getUTCFullYear() < 2050
    ? element(TAG.utcTime, Buffer.from(digits.slice(2)))
    : element(TAG.generalizedTime, Buffer.from(digits));
}
