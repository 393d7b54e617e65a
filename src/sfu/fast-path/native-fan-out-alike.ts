// An audience's copies of packets, made by one call for all packets that come in a row: what TypeScript has to say is the
// packets and the table of seats. Copies are put off until something else is to be sent or the seats change, as a browser sends
// all packets of a frame at once: then they are made viewer by viewer, and leave as one message for each.

import { type Pointer, ptr } from "bun:ffi";
import type { Audience } from "../forwarding/audience.ts";
import { createFanOutAlike, type FanOutAlike, MAX_PACKET_BYTES } from "../forwarding/fan-out.ts";
import { ROW_WORDS, type SeatTable } from "../forwarding/seat-table.ts";
import type { SendBatch } from "../forwarding/send-batch.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import type { RtpView } from "../wire/rtp/rtp.ts";
import { absSendTime } from "../wire/rtp/rtp-extensions.ts";
import type { NativeEngine } from "./library.ts";

/** `source` in native.h. */
export const SOURCE_WORDS = 70;
const SOURCE_BYTES = SOURCE_WORDS * 4;
/** Its fields, 32 bits each, behind the two doubles that it begins with. */
const SOURCE = {
  /** 64 bits. */
  data: 4,
  dataBytes: 6,
  payloadAt: 7,
  payloadBytes: 8,
  timestamp: 9,
  marker: 10,
  absSendTime: 11,
  vp8Bytes: 12,
  pictureIdAt: 13,
  wide: 14,
  pictureId: 15,
  tl0At: 16,
  tl0: 17,
  keyIdxAt: 18,
  keyIdx: 19,
  elementCount: 20,
  elements: 21,
} as const;
const ELEMENT_WORDS = 3;
const MAX_ELEMENTS = 16;
/** Known to native.h as well. */
const MAX_RUN = 32;
const WORD = 0x100000000;

export function createNativeFanOutAlike(native: NativeEngine): { fanOutAlike: FanOutAlike; finishAlike(): void } {
  const sources = new Uint32Array(new ArrayBuffer(MAX_RUN * SOURCE_WORDS * 4));
  const doubles = new Float64Array(sources.buffer);
  const oneByOne = createFanOutAlike();
  /** The run of packets that wait for their copies. Its bytes are held on to here. */
  const waiting: Uint8Array[] = [];
  let audience: Audience | null = null;
  let batch: SendBatch | null = null;

  /** False: it has more extensions than there is room for. */
  const describe = ({ view, vp8, extended }: SourcePacket, nowMs: number, rewritesVp8: boolean): boolean => {
    const at = waiting.length * SOURCE_WORDS;
    const elements = listElements(view, sources, at);
    if (elements > MAX_ELEMENTS) return false;
    doubles[at / 2] = extended;
    doubles[at / 2 + 1] = nowMs;
    sources[at + SOURCE.dataBytes] = view.length;
    sources[at + SOURCE.payloadAt] = view.payloadOffset;
    sources[at + SOURCE.payloadBytes] = view.payloadLength;
    sources[at + SOURCE.timestamp] = view.timestamp;
    sources[at + SOURCE.marker] = view.marker ? 1 : 0;
    sources[at + SOURCE.absSendTime] = absSendTime(nowMs);
    sources[at + SOURCE.vp8Bytes] = rewritesVp8 ? vp8.length : 0;
    sources[at + SOURCE.pictureIdAt] = vp8.pictureId >= 0 ? vp8.pictureIdAt : 0;
    sources[at + SOURCE.wide] = vp8.wide ? 1 : 0;
    sources[at + SOURCE.pictureId] = vp8.pictureId;
    sources[at + SOURCE.tl0At] = vp8.tl0PicIdx >= 0 ? vp8.tl0At : 0;
    sources[at + SOURCE.tl0] = vp8.tl0PicIdx;
    sources[at + SOURCE.keyIdxAt] = vp8.keyIdx >= 0 ? vp8.tidAt : 0;
    sources[at + SOURCE.keyIdx] = vp8.keyIdx;
    sources[at + SOURCE.elementCount] = elements;
    waiting.push(view.data);
    return true;
  };

  /** Just before they are read: the bytes of a small array move when somebody asks for its buffer. */
  const locate = (): void => {
    for (const [i, data] of waiting.entries()) {
      const address = ptr(data);
      sources[i * SOURCE_WORDS + SOURCE.data] = address % WORD;
      sources[i * SOURCE_WORDS + SOURCE.data + 1] = Math.floor(address / WORD);
    }
  };

  const finishAlike = (): void => {
    const packets = waiting.length;
    if (packets === 0 || !audience || !batch) return;
    const { table } = audience;
    const to = batch;
    table.finish = null;
    audience = null;
    locate();
    copyRun(native, ptr(sources), packets, table, to);
    waiting.length = 0;
  };

  const fanOutAlike: FanOutAlike = (packet, to, nowMs, into) => {
    const { view } = packet;
    if (audience !== to || batch !== into || waiting.length === Math.min(MAX_RUN, into.capacity)) finishAlike();
    const { table } = to;
    if (view.length > MAX_PACKET_BYTES || table.seats.length === 0) return;
    // All of an audience have the same codec, as they have the same source.
    if (!describe(packet, nowMs, table.seats[0]?.vp8Offsets !== null)) {
      finishAlike();
      oneByOne(packet, to, nowMs, into);
      return;
    }
    audience = to;
    batch = into;
    table.finish = finishAlike;
  };

  return { fanOutAlike, finishAlike };
}

/** Returns how many there are, or more than there is room for. */
function listElements(view: RtpView, sources: Uint32Array, source: number): number {
  let at = view.extensionOffset;
  let count = 0;
  for (; count <= MAX_ELEMENTS && view.nextExtension(at); count++) {
    at = view.elementOffset + view.elementLength;
    if (count === MAX_ELEMENTS) continue;
    const word = source + SOURCE.elements + count * ELEMENT_WORDS;
    sources[word] = view.elementId;
    sources[word + 1] = view.elementOffset;
    sources[word + 2] = view.elementLength;
  }
  return count;
}

/** Every seat's copies of packets in a row, viewer by viewer. `sources`: where the packets are described, one after the other. */
export function copyRun(
  native: NativeEngine,
  sources: number,
  packets: number,
  table: SeatTable,
  batch: SendBatch,
): void {
  // Only a batch for a test holds fewer.
  if (packets > batch.capacity) {
    for (let i = 0; i < packets; i++) copyRun(native, sources + i * SOURCE_BYTES, 1, table, batch);
    return;
  }
  const { arena, destinations } = batch;
  for (let done = 0; done < table.seats.length; ) {
    const room = Math.floor((batch.capacity - batch.count) / packets);
    if (room === 0) {
      batch.flush();
      continue;
    }
    const count = Math.min(table.seats.length - done, room);
    const rows = done === 0 ? table.rows : table.rows.subarray(done * ROW_WORDS);
    const filled = native.functions.stoa_fan_out_run(
      native.engine,
      arena,
      arena.length,
      batch.count,
      destinations,
      sources as Pointer,
      packets,
      rows,
      count,
    );
    if (filled !== count * packets) return;
    batch.commitFilled(table.addresses, done, count, packets);
    done += count;
  }
}
