// What one viewer's copies of a layer's packets have in common, from one change of layer to the next: how far its numbers
// are ahead or behind, its key, its extensions. Everything else about a copy follows from the packet.

import type { Vp8Ids } from "../wire/codec/vp8.ts";
import type { TransportSequence } from "../wire/rtcp/twcc-feedback.ts";
import type { OutgoingExtensions } from "../wire/rtp/rtp-extensions.ts";
import type { SequenceMap } from "../wire/rtp/sequence-map.ts";
import type { FanOutTarget, FanOutTransport } from "./fan-out-target.ts";
import type { SourcePacket } from "./source-packet.ts";

export const SEQUENCE_CYCLE = 0x10000;

/** Holds for all copies until the viewer changes layers, pauses or gets another source. */
export interface CopyConstants {
  readonly ssrc: number;
  readonly payloadType: number;
  /** Outgoing number = extended − offset. */
  readonly sequenceOffset: number;
  readonly timestampOffset: number;
  /** Null: the payload is left as it is. */
  readonly vp8Offsets: Readonly<Vp8Ids> | null;
  /** Up to this number the viewer waits for packets that others may have. */
  readonly unsettledUpTo: number;
}

/** What an audience was sent while a viewer sat in it. */
export interface SentByConstants {
  packets: number;
  octets: number;
  /** Which numbers, and which are missing. */
  numbers: SequenceMap;
  /** Of the newest frame, and when its first packet came. */
  timestamp: number;
  timestampAtMs: number;
  /** Of the newest packet that has them. */
  vp8: { readonly seen: boolean; readonly pictureId: number; readonly wide: boolean } & Vp8Ids;
}

export interface Seat extends CopyConstants {
  readonly transport: FanOutTransport;
  readonly extensions: OutgoingExtensions;
  /** Null: the viewer wants no transport-wide numbers. */
  readonly numbers: TransportSequence | null;
  /** Where the viewer sits in its audience. */
  index: number;
  leave(): void;
}

const ids: Vp8Ids = { pictureId: 0, tl0PicIdx: 0, keyIdx: 0 };

/** The copy of `packet` for this seat; its transport sequence is the caller's business. Returns its number, unwrapped. */
export function describeCopy(seat: Seat, packet: SourcePacket, sentAtMs: number, target: FanOutTarget): number {
  const { view, vp8 } = packet;
  const outgoing = packet.extended - seat.sequenceOffset;
  target.transport = seat.transport;
  target.extensions = seat.extensions;
  target.ssrc = seat.ssrc;
  target.sequenceNumber = outgoing & 0xffff;
  target.timestamp = (view.timestamp + seat.timestampOffset) >>> 0;
  target.payloadType = seat.payloadType;
  target.marker = view.marker;
  target.originalSequenceNumber = -1;
  target.sentAtMs = sentAtMs;
  target.prefixLength = 0;
  const offsets = seat.vp8Offsets;
  if (offsets !== null && vp8.length > 0) {
    ids.pictureId = vp8.pictureId + offsets.pictureId;
    ids.tl0PicIdx = vp8.tl0PicIdx + offsets.tl0PicIdx;
    ids.keyIdx = vp8.keyIdx + offsets.keyIdx;
    target.prefixLength = vp8.rewrite(view.data, view.payloadOffset, target.prefix, ids);
  }
  return outgoing;
}
