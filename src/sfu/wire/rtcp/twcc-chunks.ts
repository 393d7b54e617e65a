// Packet status chunks of transport-wide feedback: run-length, one-bit and two-bit vectors.

import { readUint8, readUint16, writeUint16 } from "../rtp/bytes.ts";

export const SYMBOL = { lost: 0, small: 1, large: 2 } as const;
const MAX_RUN = 0x1fff;

export function writeStatusChunks(out: Uint8Array, at: number, symbols: Uint8Array, count: number): number {
  let i = 0;
  while (i < count) {
    const symbol = readUint8(symbols, i);
    let run = 1;
    while (i + run < count && run < MAX_RUN && symbols[i + run] === symbol) run++;
    const oneBit = fitsOneBit(symbols, i, count);
    if (run >= (oneBit ? 14 : 7) || i + run === count) {
      writeUint16(out, at, (symbol << 13) | run);
      i += run;
    } else if (oneBit) {
      writeUint16(out, at, 0x8000 | packVector(symbols, i, count, 14, 1));
      i += 14;
    } else {
      writeUint16(out, at, 0xc000 | packVector(symbols, i, count, 7, 2));
      i += 7;
    }
    at += 2;
  }
  return at;
}

function fitsOneBit(symbols: Uint8Array, from: number, count: number): boolean {
  for (let i = from; i < Math.min(count, from + 14); i++) if (readUint8(symbols, i) > 1) return false;
  return true;
}

function packVector(symbols: Uint8Array, from: number, count: number, size: number, bits: number): number {
  let vector = 0;
  for (let i = 0; i < size; i++) {
    const symbol = from + i < count ? readUint8(symbols, from + i) : 0;
    vector |= symbol << (bits * (size - 1 - i));
  }
  return vector;
}

/** Fills `symbols` with `count` statuses and returns where the deltas begin, or −1 when the chunks run out. */
export function readStatusChunks(
  data: Uint8Array,
  at: number,
  dataEnd: number,
  symbols: Uint8Array,
  count: number,
): number {
  let filled = 0;
  while (filled < count) {
    if (at + 2 > dataEnd) return -1;
    const chunk = readUint16(data, at);
    at += 2;
    if (chunk < 0x8000) {
      const end = Math.min(count, filled + (chunk & MAX_RUN));
      // An empty run would never end.
      if (end === filled) return -1;
      symbols.fill((chunk >> 13) & 3, filled, end);
      filled = end;
    } else {
      const bits = chunk & 0x4000 ? 2 : 1;
      const size = 14 / bits;
      for (let i = 0; i < size && filled < count; i++) {
        symbols[filled++] = (chunk >> (bits * (size - 1 - i))) & (bits === 2 ? 3 : 1);
      }
    }
  }
  return at;
}
