// EBML (RFC 8794), as much of it as a WebM file needs: elements are an id, a size and bytes.

import { concat } from "../wire/frames/frame.ts";

/** All ones: the element goes on until something of its parent's level begins, or the file ends. */
export const UNKNOWN_SIZE = Uint8Array.of(0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);

export function idBytes(id: number): Uint8Array {
  if (id > 0xffffff) return Uint8Array.of(id >>> 24, id >>> 16, id >>> 8, id);
  if (id > 0xffff) return Uint8Array.of(id >>> 16, id >>> 8, id);
  return id > 0xff ? Uint8Array.of(id >>> 8, id) : Uint8Array.of(id);
}

/** The shortest form, or one of eight bytes where a size is filled in later. */
export function sizeBytes(size: number, wide = false): Uint8Array {
  if (wide) {
    const out = new Uint8Array(8);
    new DataView(out.buffer).setBigUint64(0, BigInt(size) | (1n << 56n));
    return out;
  }
  if (size < 0x7f) return Uint8Array.of(0x80 | size);
  if (size < 0x3fff) return Uint8Array.of(0x40 | (size >>> 8), size);
  if (size < 0x1fffff) return Uint8Array.of(0x20 | (size >>> 16), size >>> 8, size);
  return Uint8Array.of(0x10 | (size >>> 24), size >>> 16, size >>> 8, size);
}

export function element(id: number, content: Uint8Array): Uint8Array {
  return concat([idBytes(id), sizeBytes(content.length), content]);
}

export function master(id: number, ...children: Uint8Array[]): Uint8Array {
  return element(id, concat(children));
}

/** At least `width` bytes, so that numbers that are patched keep their place. */
export function unsigned(id: number, value: number, width = 1): Uint8Array {
  const bytes: number[] = [];
  for (let rest = value; rest > 0 || bytes.length < width; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return element(id, Uint8Array.from(bytes));
}

export function float(id: number, value: number): Uint8Array {
  const out = new Uint8Array(8);
  new DataView(out.buffer).setFloat64(0, value);
  return element(id, out);
}

export function text(id: number, value: string): Uint8Array {
  return element(id, new TextEncoder().encode(value));
}

/** Space that can be overwritten later; at least two bytes. */
export function voidOf(length: number): Uint8Array {
  const out = new Uint8Array(length);
  out[0] = 0xec;
  if (length < 10) out[1] = 0x80 | (length - 2);
  else out.set(sizeBytes(length - 9, true), 1);
  return out;
}
