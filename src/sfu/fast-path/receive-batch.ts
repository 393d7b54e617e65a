/** The packets that one wait of the native receive loop has forwarded. */
import type { PacketRing } from "../wire/rtp/packet-ring.ts";

/** Consecutive packets of one stream and one RTP timestamp. The object is reused between calls. */
export type PacketRun = {
  stream: number;
  /** The index of its first datagram; the others follow it. */
  first: number;
  count: number;
  /** The sequence number of the first packet, unwrapped. */
  extended: number;
  timestamp: number;
  /** The sizes of the packets, and of their payloads. */
  bytes: number;
  payloadBytes: number;
  hasTransportNumber: boolean;
  /** −1 without one. */
  audioLevel: number;
  /** The ids of the last packet; `length` is 0 with other codecs. */
  vp8: { length: number; pictureId: number; wide: boolean; tl0PicIdx: number; keyIdx: number };
};

export interface ReceiveBatch {
  /** A copy of the plain packet. */
  datagram(number: number): Uint8Array;
  /** Copies the packet into the ring, for retransmission. */
  keep(number: number, ring: PacketRing, extended: number, nowMs: number): void;
}
