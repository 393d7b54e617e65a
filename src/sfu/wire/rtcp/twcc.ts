// Transport-wide feedback to a publisher (draft-holmer-rmcat-transport-wide-cc-extensions-01): which packets of the connection
// arrived, and when. It must be sent alone, every 50 … 100 ms.

import { readUint8, readUint16, writeUint16, writeUint24, writeUint32 } from "../rtp/bytes.ts";
import { sequenceDiff } from "../rtp/sequence.ts";
import { RTCP_TYPE } from "./rtcp.ts";

/** A link to another worker brings thousands of packets between two reports. */
const CAPACITY = 2_048;
const MASK = CAPACITY - 1;
/** Keeps a report below any MTU, whatever the deltas. */
const MAX_STATUSES = 400;
export const MAX_TWCC_BYTES = 20 + MAX_STATUSES * 2 + MAX_STATUSES * 2 + 4;
/** One tick is 250 µs, one unit of the reference time 256 ticks (64 ms). */
const TICKS_PER_MS = 4;
const REFERENCE_BITS = 8;
const HEAD_BYTES = 16;

/** The symbols of the report that is being written. */
const symbols = new Uint8Array(MAX_STATUSES);

export class TwccRecorder {
  /** The highest number, the next to report, and arrivals: `arrivals` in fast-path.h, where native code does the same as `record`. */
  readonly memory = new Float64Array(new ArrayBuffer(HEAD_BYTES + CAPACITY * 4)).fill(-1, 0, 2);
  /** Arrival times in ticks, which all bits of a report's reference time are taken from; 0 for packets not received. */
  readonly #arrivals = new Int32Array(this.memory.buffer, HEAD_BYTES);
  #reports = 0;

  /** −1 before the first packet. */
  get #highest(): number {
    return this.memory[0] as number;
  }

  get #next(): number {
    return this.memory[1] as number;
  }

  set #next(extended: number) {
    this.memory[1] = extended;
  }

  /** Is true when a packet has arrived that no report covers yet. */
  get pending(): boolean {
    return this.#highest >= 0 && this.#next <= this.#highest;
  }

  record(sequenceNumber: number, nowMs: number): void {
    const highest = this.#highest;
    const extended = highest < 0 ? sequenceNumber : highest + sequenceDiff(sequenceNumber, highest & 0xffff);
    if (extended > highest) this.memory[0] = extended;
    if (highest < 0) {
      this.#next = extended;
    } else if (extended > highest) {
      if (extended - highest >= CAPACITY) this.#arrivals.fill(0);
      else for (let lost = highest + 1; lost < extended; lost++) this.#arrivals[lost & MASK] = 0;
      this.#next = Math.max(this.#next, extended - CAPACITY + 1);
    } else {
      if (highest - extended >= MAX_STATUSES || this.#arrivals[extended & MASK] !== 0) return;
      // The packet was reported as lost: the next report starts there and corrects it.
      this.#next = Math.min(this.#next, extended);
    }
    this.#arrivals[extended & MASK] = Math.round(nowMs * TICKS_PER_MS) | 0 || 1;
  }

  /** Writes one report and returns its end, or `at` when nothing is pending. Callers repeat it while `pending`. */
  writeFeedback(out: Uint8Array, at: number, senderSsrc: number, mediaSsrc: number): number {
    if (!this.pending) return at;
    const base = this.#next;
    const last = Math.min(this.#highest, base + MAX_STATUSES - 1);
    // If a report has only losses, the reference is the next arrival. There is one, because the highest number has arrived.
    const referenceUnits = this.#firstArrival(base) >>> REFERENCE_BITS;
    const referenceTicks = referenceUnits << REFERENCE_BITS;
    const count = this.#fillSymbols(base, last, referenceTicks);
    writeUint32(out, at + 4, senderSsrc);
    writeUint32(out, at + 8, mediaSsrc);
    writeUint16(out, at + 12, base & 0xffff);
    writeUint16(out, at + 14, count);
    writeUint24(out, at + 16, referenceUnits);
    out[at + 19] = this.#reports;
    this.#reports = (this.#reports + 1) & 0xff;
    let end = writeStatusChunks(out, at + 20, symbols, count);
    end = this.#writeDeltas(out, end, base, count, referenceTicks);
    const padding = -(end - at) & 3;
    for (let i = 0; i < padding; i++) out[end++] = i === padding - 1 ? padding : 0;
    out[at] = 0x80 | (padding > 0 ? 0x20 : 0) | 15;
    out[at + 1] = RTCP_TYPE.rtpFeedback;
    writeUint16(out, at + 2, (end - at) / 4 - 1);
    this.#next = base + count;
    return end;
  }

  #firstArrival(from: number): number {
    let extended = from;
    while (extended < this.#highest && this.#arrivals[extended & MASK] === 0) extended++;
    return this.#arrivals[extended & MASK] as number;
  }

  /** Returns how many packets fit: a delta beyond 16 bits ends the report, and the next has its own reference. */
  #fillSymbols(base: number, last: number, referenceTicks: number): number {
    let previous = referenceTicks;
    for (let extended = base; extended <= last; extended++) {
      const ticks = this.#arrivals[extended & MASK] as number;
      let symbol: number = SYMBOL.lost;
      if (ticks !== 0) {
        const delta = (ticks - previous) | 0;
        if (delta < -32_768 || delta > 32_767) return extended - base;
        symbol = delta >= 0 && delta <= 255 ? SYMBOL.small : SYMBOL.large;
        previous = ticks;
      }
      symbols[extended - base] = symbol;
    }
    return last - base + 1;
  }

  #writeDeltas(out: Uint8Array, at: number, base: number, count: number, referenceTicks: number): number {
    let previous = referenceTicks;
    for (let i = 0; i < count; i++) {
      const symbol = readUint8(symbols, i);
      if (symbol === SYMBOL.lost) continue;
      const ticks = this.#arrivals[(base + i) & MASK] as number;
      const delta = (ticks - previous) | 0;
      previous = ticks;
      if (symbol === SYMBOL.small) {
        out[at++] = delta;
      } else {
        writeUint16(out, at, delta & 0xffff);
        at += 2;
      }
    }
    return at;
  }
}

/** Symbols of packet status chunks, which are run lengths, one-bit or two-bit vectors. */
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

/** Fills `symbols` with `count` statuses and returns where the deltas begin, or −1 when there are too few chunks. */
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
      // An empty run would loop forever.
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
