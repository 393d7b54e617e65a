/** Where a copy of a packet goes, and what it looks like when it leaves. */

import type { OutgoingExtensions } from "../wire/rtp/rtp-extensions.ts";
import type { SrtpSender } from "../wire/srtp/srtp.ts";

/** One connection, as far as sending goes. The owner changes it when the peer moves, once no one is `seated` on it. */
export interface FanOutTransport {
  srtp: SrtpSender;
  address: string;
  port: number;
  /** A connection over TCP takes its packets itself; UDP goes to the batch. The bytes are only lent. */
  deliver: ((packet: Uint8Array) => void) | undefined;
  /** Streams whose packets go out without looking here again, until they leave. */
  readonly seated: Set<{ leave(): void }>;
}

/** What one subscription wants this packet to look like. Re-used: the forwarder fills it per packet. */
export interface FanOutTarget {
  transport: FanOutTransport;
  extensions: OutgoingExtensions;
  ssrc: number;
  sequenceNumber: number;
  timestamp: number;
  payloadType: number;
  marker: boolean;
  /** The first bytes of the payload are replaced by as many of these (VP8 descriptor). 0: untouched. */
  prefix: Uint8Array;
  prefixLength: number;
  /** RTX (RFC 4588): the original sequence number goes before the payload. −1: not a retransmission over RTX. */
  originalSequenceNumber: number;
  /** 0 … 255 bytes of padding behind the payload, for probing. */
  paddingLength: number;
  /** Transport-wide sequence number; ignored when the extensions have none. */
  transportSequence: number;
  /** Wall clock for abs-send-time. A retransmission without RTX repeats number and time: see `SrtpSender`. */
  sentAtMs: number;
}

export function createTarget(transport: FanOutTransport, extensions: OutgoingExtensions): FanOutTarget {
  return {
    transport,
    extensions,
    ssrc: 0,
    sequenceNumber: 0,
    timestamp: 0,
    payloadType: 0,
    marker: false,
    prefix: new Uint8Array(8),
    prefixLength: 0,
    originalSequenceNumber: -1,
    paddingLength: 0,
    transportSequence: 0,
    sentAtMs: 0,
  };
}
