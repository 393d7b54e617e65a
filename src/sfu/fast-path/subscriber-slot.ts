/**
 * What all copies of a layer's packets for one subscriber have in common, from one change of layer to the next: the
 * offsets of its sequence numbers, its key, its extensions. Everything else about a copy follows from the packet.
 * Native code has a row of words for each slot.
 */
import { ptr } from "bun:ffi";
import type { FanOutTarget, FanOutTransport } from "../forwarding/fan-out-target.ts";
import type { CopyConstants } from "../forwarding/forwarder.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import type { Vp8Ids } from "../wire/codec/vp8.ts";
import type { TransportSequence } from "../wire/rtcp/twcc-feedback.ts";
import type { OutgoingExtensions } from "../wire/rtp/rtp-extensions.ts";
import { addressWords, setPointer } from "./native-engine.ts";

export interface SubscriberSlot extends CopyConstants {
  readonly transport: FanOutTransport;
  readonly extensions: OutgoingExtensions;
  /** Null without transport-wide sequence numbers. */
  readonly numbers: TransportSequence | null;
  /** The position in the table of its group. */
  index: number;
  leave(): void;
}

const ids: Vp8Ids = { pictureId: 0, tl0PicIdx: 0, keyIdx: 0 };

/** Fills in the copy for this slot, except for its transport-wide number. Returns its sequence number, unwrapped. */
export function describeCopy(
  slot: SubscriberSlot,
  packet: SourcePacket,
  sentAtMs: number,
  target: FanOutTarget,
): number {
  const { view, vp8 } = packet;
  const outgoing = packet.extended - slot.sequenceOffset;
  target.transport = slot.transport;
  target.extensions = slot.extensions;
  target.ssrc = slot.ssrc;
  target.sequenceNumber = outgoing & 0xffff;
  target.timestamp = (view.timestamp + slot.timestampOffset) >>> 0;
  target.payloadType = slot.payloadType;
  target.marker = view.marker;
  target.originalSequenceNumber = -1;
  target.sentAtMs = sentAtMs;
  target.prefixLength = 0;
  const offsets = slot.vp8Offsets;
  if (offsets !== null && vp8.length > 0) {
    ids.pictureId = vp8.pictureId + offsets.pictureId;
    ids.tl0PicIdx = vp8.tl0PicIdx + offsets.tl0PicIdx;
    ids.keyIdx = vp8.keyIdx + offsets.keyIdx;
    target.prefixLength = vp8.rewrite(view.data, view.payloadOffset, target.prefix, ids);
  }
  return outgoing;
}

/** Positions in a row, in words of 32 bits: `subscriber_slot` in fast-path.h. */
const ROW = {
  cipher: 0,
  ssrc: 1,
  /** A pointer, or 0. */
  numbers: 2,
  /** A double. */
  sequenceOffset: 4,
  timestampOffset: 6,
  pictureIdOffset: 7,
  tl0Offset: 8,
  keyIdxOffset: 9,
  /** 16 bits, then the payload type. */
  port: 10,
  /** Bytes: length of the template, positions of abs-send-time and of the transport sequence in it, 1 for the two-byte form. */
  extensions: 11,
  address: 12,
  template: 16,
  /** Eight bytes of ids that are passed on, then the ids that they become; 0 from the first free entry on. */
  passed: 28,
} as const;
export const ROW_WORDS = 32;
const TEMPLATE_BYTES = 48;
const MAX_PASSED = 8;
const FIRST_CAPACITY = 4;

/** The slots of a group, and the same slots as rows for native code: two cache lines each. */
export class SlotTable {
  readonly slots: SubscriberSlot[] = [];
  readonly addresses: string[] = [];
  rows = new Uint32Array(FIRST_CAPACITY * ROW_WORDS);

  /** Returns false when the slot fits no row. */
  add(slot: SubscriberSlot): boolean {
    const index = this.slots.length;
    if (index * ROW_WORDS === this.rows.length) {
      const rows = new Uint32Array(this.rows.length * 2);
      rows.set(this.rows);
      this.rows = rows;
    }
    if (!writeRow(this.rows.subarray(index * ROW_WORDS, (index + 1) * ROW_WORDS), slot)) return false;
    slot.index = index;
    this.slots.push(slot);
    this.addresses.push(slot.transport.address);
    return true;
  }

  /** The last slot moves to the free position. */
  remove(slot: SubscriberSlot): void {
    const last = this.slots.pop();
    const address = this.addresses.pop();
    if (!last || address === undefined || last === slot) return;
    const from = last.index * ROW_WORDS;
    this.rows.copyWithin(slot.index * ROW_WORDS, from, from + ROW_WORDS);
    this.slots[slot.index] = last;
    this.addresses[slot.index] = address;
    last.index = slot.index;
  }
}

function writeRow(row: Uint32Array, slot: SubscriberSlot): boolean {
  const { transport, vp8Offsets } = slot;
  const { template, absSendTimeAt, transportSequenceAt, twoByte, passing } = slot.extensions;
  const address = addressWords(transport.address);
  if (!address || template.length > TEMPLATE_BYTES || passing.length > MAX_PASSED) return false;
  row.fill(0);
  const { handle } = transport.srtp.cipher;
  row[ROW.cipher] = handle;
  row[ROW.ssrc] = slot.ssrc;
  if (handle !== 0 && slot.numbers) {
    if (!slot.numbers.memory) return false;
    setPointer(row, ROW.numbers, ptr(slot.numbers.memory));
  }
  new Float64Array(row.buffer, row.byteOffset + ROW.sequenceOffset * 4, 1)[0] = slot.sequenceOffset;
  row[ROW.timestampOffset] = slot.timestampOffset;
  row[ROW.pictureIdOffset] = vp8Offsets?.pictureId ?? 0;
  row[ROW.tl0Offset] = vp8Offsets?.tl0PicIdx ?? 0;
  row[ROW.keyIdxOffset] = vp8Offsets?.keyIdx ?? 0;
  row[ROW.port] = transport.port | (slot.payloadType << 16);
  row.set(address, ROW.address);
  const bytes = new Uint8Array(row.buffer, row.byteOffset, ROW_WORDS * 4);
  bytes.set([template.length, absSendTimeAt, transportSequenceAt, twoByte ? 1 : 0], ROW.extensions * 4);
  bytes.set(template, ROW.template * 4);
  for (const [i, { from, to }] of passing.entries()) {
    bytes[ROW.passed * 4 + i] = from;
    bytes[ROW.passed * 4 + MAX_PASSED + i] = to;
  }
  return true;
}
