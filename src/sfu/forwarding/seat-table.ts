// The seats of an audience, also as rows of words: two lines of the processor's cache for each viewer, and all that native
// code (`../fast-path/fan-out.c`) needs to know of it.

import { ptr } from "bun:ffi";
import { addressWords } from "../wire/rtp/address.ts";
import type { Seat } from "./seat.ts";

/** Places in a row, in words of 32 bits. The sequence offset is a double. */
export const ROW = {
  cipher: 0,
  ssrc: 1,
  /** Where its transport-wide numbers are in memory, 64 bits; 0 when it wants none. */
  numbers: 2,
  sequenceOffset: 4,
  timestampOffset: 6,
  pictureIdOffset: 7,
  tl0Offset: 8,
  keyIdxOffset: 9,
  /** 16 bits, then the payload type. */
  port: 10,
  /** Bytes: length of the template, place of abs-send-time and of the transport sequence in it, 1 for the two-byte form. */
  extensions: 11,
  address: 12,
  template: 16,
  /** Eight bytes of ids that pass through, then what they become; 0 from the first that is free. */
  passing: 28,
} as const;
export const ROW_WORDS = 32;
const TEMPLATE_BYTES = 48;
const MAX_PASSING = 8;
const FIRST_CAPACITY = 4;
const WORD = 0x100000000;

export class SeatTable {
  readonly seats: Seat[] = [];
  readonly addresses: string[] = [];
  /** Makes the copies that are still to be made for those who sit here now. Called before anybody comes or goes. */
  finish: (() => void) | null = null;
  rows = new Uint32Array(FIRST_CAPACITY * ROW_WORDS);

  /** False when it fits no row. */
  add(seat: Seat): boolean {
    this.finish?.();
    const index = this.seats.length;
    if (index * ROW_WORDS === this.rows.length) {
      const rows = new Uint32Array(this.rows.length * 2);
      rows.set(this.rows);
      this.rows = rows;
    }
    if (!writeRow(this.rows.subarray(index * ROW_WORDS, (index + 1) * ROW_WORDS), seat)) return false;
    seat.index = index;
    this.seats.push(seat);
    this.addresses.push(seat.transport.address);
    return true;
  }

  /** The last one moves to the free place. */
  remove(seat: Seat): void {
    this.finish?.();
    const last = this.seats.pop();
    const address = this.addresses.pop();
    if (!last || address === undefined) return;
    if (last === seat) return;
    const from = last.index * ROW_WORDS;
    this.rows.copyWithin(seat.index * ROW_WORDS, from, from + ROW_WORDS);
    this.seats[seat.index] = last;
    this.addresses[seat.index] = address;
    last.index = seat.index;
  }
}

function writeRow(row: Uint32Array, seat: Seat): boolean {
  const { transport, vp8Offsets } = seat;
  const { template, absSendTimeAt, transportSequenceAt, twoByte, passing } = seat.extensions;
  const address = addressWords(transport.address);
  if (!address || template.length > TEMPLATE_BYTES || passing.length > MAX_PASSING) return false;
  row.fill(0);
  const { handle } = transport.srtp.cipher;
  row[ROW.cipher] = handle;
  row[ROW.ssrc] = seat.ssrc;
  if (handle !== 0 && seat.numbers) {
    if (!seat.numbers.memory) return false;
    const at = ptr(seat.numbers.memory);
    row[ROW.numbers] = at % WORD;
    row[ROW.numbers + 1] = Math.floor(at / WORD);
  }
  new Float64Array(row.buffer, row.byteOffset + ROW.sequenceOffset * 4, 1)[0] = seat.sequenceOffset;
  row[ROW.timestampOffset] = seat.timestampOffset;
  row[ROW.pictureIdOffset] = vp8Offsets?.pictureId ?? 0;
  row[ROW.tl0Offset] = vp8Offsets?.tl0PicIdx ?? 0;
  row[ROW.keyIdxOffset] = vp8Offsets?.keyIdx ?? 0;
  row[ROW.port] = transport.port | (seat.payloadType << 16);
  row.set(address, ROW.address);
  const bytes = new Uint8Array(row.buffer, row.byteOffset, ROW_WORDS * 4);
  bytes.set([template.length, absSendTimeAt, transportSequenceAt, twoByte ? 1 : 0], ROW.extensions * 4);
  bytes.set(template, ROW.template * 4);
  for (const [i, { from, to }] of passing.entries()) {
    bytes[ROW.passing * 4 + i] = from;
    bytes[ROW.passing * 4 + MAX_PASSING + i] = to;
  }
  return true;
}
