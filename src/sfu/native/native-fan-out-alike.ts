// An audience's copies of one packet, all made by one call: what TypeScript has to say is the packet and the table of seats.

import { createFanOutAlike, type FanOutAlike, MAX_PACKET_BYTES } from "../forwarding/fan-out.ts";
import { ROW, ROW_WORDS, type SeatTable } from "../forwarding/seat-table.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import { absSendTime } from "../rtp/ntp.ts";
import type { RtpView } from "../rtp/rtp.ts";
import type { NativeEngine } from "./library.ts";

/** Fields of `source` in native.h, 32 bits each, behind the double that it begins with. */
const SOURCE = {
  dataBytes: 2,
  payloadAt: 3,
  payloadBytes: 4,
  timestamp: 5,
  marker: 6,
  absSendTime: 7,
  vp8Bytes: 8,
  pictureIdAt: 9,
  wide: 10,
  pictureId: 11,
  tl0At: 12,
  tl0: 13,
  keyIdxAt: 14,
  keyIdx: 15,
  elementCount: 16,
  elements: 17,
} as const;
const ELEMENT_WORDS = 3;
const MAX_ELEMENTS = 16;
const SOURCE_WORDS = 66;

export function createNativeFanOutAlike(native: NativeEngine): FanOutAlike {
  const source = new Uint32Array(SOURCE_WORDS);
  const extended = new Float64Array(source.buffer, 0, 1);

  const oneByOne = createFanOutAlike();

  /** False: it has more extensions than there is room for. */
  const describe = ({ view, vp8, extended: number }: SourcePacket, nowMs: number, rewritesVp8: boolean): boolean => {
    extended[0] = number;
    source[SOURCE.dataBytes] = view.length;
    source[SOURCE.payloadAt] = view.payloadOffset;
    source[SOURCE.payloadBytes] = view.payloadLength;
    source[SOURCE.timestamp] = view.timestamp;
    source[SOURCE.marker] = view.marker ? 1 : 0;
    source[SOURCE.absSendTime] = absSendTime(nowMs);
    source[SOURCE.vp8Bytes] = rewritesVp8 ? vp8.length : 0;
    source[SOURCE.pictureIdAt] = vp8.pictureId >= 0 ? vp8.pictureIdAt : 0;
    source[SOURCE.wide] = vp8.wide ? 1 : 0;
    source[SOURCE.pictureId] = vp8.pictureId;
    source[SOURCE.tl0At] = vp8.tl0PicIdx >= 0 ? vp8.tl0At : 0;
    source[SOURCE.tl0] = vp8.tl0PicIdx;
    source[SOURCE.keyIdxAt] = vp8.keyIdx >= 0 ? vp8.tidAt : 0;
    source[SOURCE.keyIdx] = vp8.keyIdx;
    const elements = listElements(view, source);
    source[SOURCE.elementCount] = elements;
    return elements <= MAX_ELEMENTS;
  };

  return (packet, audience, nowMs, batch) => {
    const { view } = packet;
    const { table } = audience;
    const { seats, addresses } = table;
    if (view.length > MAX_PACKET_BYTES) return;
    // All of an audience have the same codec, as they have the same source.
    if (!describe(packet, nowMs, seats[0]?.vp8Offsets !== null)) return oneByOne(packet, audience, nowMs, batch);
    if (table.numbered > 0) number(table, view.length, nowMs);
    const { arena, destinations } = batch;
    for (let done = 0; done < seats.length; ) {
      const count = Math.min(seats.length - done, batch.capacity - batch.count);
      const rows = done === 0 ? table.rows : table.rows.subarray(done * ROW_WORDS);
      const filled = native.functions.stoa_fan_out_alike(
        native.engine,
        arena,
        arena.length,
        batch.count,
        destinations,
        source,
        view.data,
        view.data.length,
        rows,
        count,
      );
      if (filled !== count) return;
      batch.commitFilled(count, addresses, done);
      done += count;
    }
  };
}

function number({ seats, rows }: SeatTable, bytes: number, nowMs: number): void {
  for (let i = 0; i < seats.length; i++) {
    const numbers = seats[i]?.numbers;
    if (numbers) rows[i * ROW_WORDS + ROW.transportSequence] = numbers.next(bytes, nowMs);
  }
}

/** Returns how many there are, or more than there is room for. */
function listElements(view: RtpView, source: Uint32Array): number {
  let at = view.extensionOffset;
  let count = 0;
  for (; count <= MAX_ELEMENTS && view.nextExtension(at); count++) {
    at = view.elementOffset + view.elementLength;
    if (count === MAX_ELEMENTS) continue;
    const word = SOURCE.elements + count * ELEMENT_WORDS;
    source[word] = view.elementId;
    source[word + 1] = view.elementOffset;
    source[word + 2] = view.elementLength;
  }
  return count;
}
