// The last step of a packet: rewrite, protect and queue it for every subscriber. One function over one batch, so
// that a native implementation can take its place without touching anything else.

import { writeUint16, writeUint32 } from "./bytes.ts";
import { RTP_HEADER_BYTES, type RtpView } from "./rtp.ts";
import type { OutgoingExtensions } from "./rtp-extensions.ts";
import { SEND_SLOT_BYTES, type SendBatch } from "./send-batch.ts";
import { SRTP_MAX_OVERHEAD, type SrtpSender } from "./srtp.ts";

/** One connection, as far as sending goes. The owner changes `address` and `port` when the peer moves. */
export interface FanOutTransport {
  srtp: SrtpSender;
  address: string;
  port: number;
  /** Hands out and remembers transport-wide sequence numbers; undefined when not negotiated. */
  sent: { next(bytes: number, nowMs: number): number } | undefined;
  /** A connection over TCP takes its packets itself; UDP goes to the batch. The bytes are only lent. */
  deliver: ((packet: Uint8Array) => void) | undefined;
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
  /** −1: take the next. A plain retransmission must repeat every byte, so it names the number and time it had. */
  repeatTransportSequence: number;
  repeatSentAtMs: number;
}

/** Protects `packet` for the first `count` targets and appends to `batch`, which sends itself when full. */
export type FanOut = (
  packet: RtpView,
  targets: readonly FanOutTarget[],
  count: number,
  batch: SendBatch,
  nowMs: number,
) => void;

/** Extensions we add or widen, the RTX number, and the tag: what a packet may grow by. */
const MAX_GROWTH = 320 + SRTP_MAX_OVERHEAD;

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
    repeatTransportSequence: -1,
    repeatSentAtMs: -1,
  };
}

export const fanOut: FanOut = (packet, targets, count, batch, nowMs) => {
  const { payloadOffset, payloadLength } = packet;
  if (packet.length > SEND_SLOT_BYTES - MAX_GROWTH) return;
  const payload = packet.data.subarray(payloadOffset, payloadOffset + payloadLength);
  for (let i = 0; i < count; i++) {
    const target = targets[i] as FanOutTarget;
    const { transport } = target;
    const out = batch.slot();
    writeFixedHeader(out, target);
    let at = writeExtensions(out, target, packet, nowMs);
    const headerLength = at;
    if (target.originalSequenceNumber >= 0) {
      writeUint16(out, at, target.originalSequenceNumber);
      at += 2;
    }
    out.set(payload, at);
    for (let k = 0; k < target.prefixLength; k++) out[at + k] = target.prefix[k] as number;
    const length = transport.srtp.protectRtp(out, headerLength, at + payloadLength);
    if (transport.deliver === undefined) batch.commit(length, transport.port, transport.address);
    else transport.deliver(out.subarray(0, length));
  }
};

function writeFixedHeader(out: Uint8Array, target: FanOutTarget): void {
  out[0] = 0x80;
  out[1] = (target.marker ? 0x80 : 0) | target.payloadType;
  writeUint16(out, 2, target.sequenceNumber);
  writeUint32(out, 4, target.timestamp);
  writeUint32(out, 8, target.ssrc);
}

function writeExtensions(out: Uint8Array, target: FanOutTarget, packet: RtpView, nowMs: number): number {
  const { extensions, transport } = target;
  let transportSequence = target.repeatTransportSequence;
  if (transportSequence < 0 && extensions.hasTransportSequence && transport.sent !== undefined) {
    transportSequence = transport.sent.next(packet.length, nowMs);
  }
  const stampMs = target.repeatSentAtMs < 0 ? nowMs : target.repeatSentAtMs;
  const end = extensions.write(out, RTP_HEADER_BYTES, packet, stampMs, transportSequence);
  if (end > RTP_HEADER_BYTES) out[0] = 0x90;
  return end;
}
