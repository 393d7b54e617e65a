/** One copy of a packet: where it goes, and its header. */

import type { OutgoingExtensions } from "../wire/rtp/rtp-extensions.ts";
import type { SrtpSender } from "../wire/srtp/srtp.ts";

/** The sending side of one connection. Its owner makes all `slots` leave before it changes a field. */
export interface FanOutTransport {
  srtp: SrtpSender;
  address: string;
  port: number;
  /** Sends a packet over TCP; undefined with UDP. The bytes are reused afterwards. */
  deliver: ((packet: Uint8Array) => void) | undefined;
  /** The members of fan-out groups that have copied the fields above. */
  readonly slots: Set<{ leave(): void }>;
}

/** The copy of a packet for one subscription. The forwarder fills in the same object for every packet. */
export interface FanOutTarget {
  transport: FanOutTransport;
  extensions: OutgoingExtensions;
  ssrc: number;
  sequenceNumber: number;
  timestamp: number;
  payloadType: number;
  marker: boolean;
  /** The first `prefixLength` bytes of the payload are replaced by these: the VP8 descriptor. */
  prefix: Uint8Array;
  prefixLength: number;
  /** The sequence number that a retransmission over RTX carries before the payload (RFC 4588), or −1. */
  originalSequenceNumber: number;
  /** 0 … 255 bytes of padding behind the payload, for probing. */
  paddingLength: number;
  /** The transport-wide sequence number, if the extensions have one. */
  transportSequence: number;
  /** The wall clock for abs-send-time. Without RTX, a retransmission repeats sequence number and time: see `SrtpSender`. */
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
