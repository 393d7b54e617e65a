// The last step of a packet: rewrite, protect and queue it for every subscriber. One function over one batch, so
// that a native implementation (`../fast-path/native-fan-out.ts`) can take its place without touching anything else.

import { writeUint16, writeUint32 } from "../wire/rtp/bytes.ts";
import { RTP_HEADER_BYTES, type RtpView } from "../wire/rtp/rtp.ts";
import { OutgoingExtensions } from "../wire/rtp/rtp-extensions.ts";
import { SRTP_MAX_OVERHEAD } from "../wire/srtp/srtp.ts";
import type { Audience } from "./audience.ts";
import { createTarget, type FanOutTarget, type FanOutTransport } from "./fan-out-target.ts";
import { describeCopy, SEQUENCE_CYCLE } from "./seat.ts";
import { SEND_SLOT_BYTES, type SendBatch } from "./send-batch.ts";
import type { SourcePacket } from "./source-packet.ts";

/** Protects `packet` for the first `count` targets and appends to `batch`, which sends itself when full. */
export type FanOut = (packet: RtpView, targets: readonly FanOutTarget[], count: number, batch: SendBatch) => void;

/** The same for an audience: every viewer's copy follows from the packet and from its seat. */
export type FanOutAlike = (packet: SourcePacket, audience: Audience, nowMs: number, batch: SendBatch) => void;

/** Extensions we add or widen, the RTX number, padding and the tag: what a packet may grow by. */
const MAX_GROWTH = 320 + 255 + SRTP_MAX_OVERHEAD;

const RTX_BYTES = 2;

/** Larger ones are left out: no network we know carries them. */
export const MAX_PACKET_BYTES = SEND_SLOT_BYTES - MAX_GROWTH;

export const fanOut: FanOut = (packet, targets, count, batch) => {
  const { payloadOffset, payloadLength } = packet;
  if (packet.length > MAX_PACKET_BYTES) return;
  const payload = packet.data.subarray(payloadOffset, payloadOffset + payloadLength);
  for (let i = 0; i < count; i++) {
    const target = targets[i] as FanOutTarget;
    const { transport } = target;
    const out = batch.slot();
    const headerLength = writeHeader(out, packet, target);
    if (headerLength < 0) continue;
    const at = writeOriginalSequenceNumber(out, headerLength, target);
    out.set(payload, at);
    writePrefix(out, at, target);
    const end = target.paddingLength > 0 ? pad(out, at + payloadLength, target.paddingLength) : at + payloadLength;
    const length = transport.srtp.protectRtp(out, headerLength, end);
    if (transport.deliver === undefined) batch.commit(length, transport.port, transport.address);
    else transport.deliver(out.subarray(0, length));
  }
};

const NOWHERE: FanOutTransport = {
  get srtp(): never {
    throw new Error("nothing is sent there");
  },
  address: "",
  port: 0,
  deliver: undefined,
  seated: new Set(),
};

export function createFanOutAlike(): FanOutAlike {
  const target = createTarget(NOWHERE, new OutgoingExtensions({}));
  // Header and payload of one copy after another: views of memory are dear, so none is made for a single viewer.
  const header = new Uint8Array(SEND_SLOT_BYTES);
  const headers: Uint8Array[] = [];
  const plain = new Uint8Array(SEND_SLOT_BYTES);
  return (packet, { table }, nowMs, batch) => {
    const { view } = packet;
    if (view.length > MAX_PACKET_BYTES) return;
    plain.set(view.data.subarray(view.payloadOffset, view.payloadOffset + view.payloadLength));
    const body = plain.subarray(0, view.payloadLength);
    for (const seat of table.seats) {
      const outgoing = describeCopy(seat, packet, nowMs, target);
      if (seat.numbers !== null) target.transportSequence = seat.numbers.next(view.length, nowMs);
      const headerLength = writeHeader(header, view, target);
      if (headerLength < 0) continue;
      writePrefix(plain, 0, target);
      const { srtp, port, address } = seat.transport;
      const rollover = Math.floor(outgoing / SEQUENCE_CYCLE);
      headers[headerLength] ??= header.subarray(0, headerLength);
      batch.commit(
        srtp.cipher.sealRtp(headers[headerLength], body, batch.slot(), rollover, target.sequenceNumber),
        port,
        address,
      );
    }
  };
}

/** The fixed header and the extensions. Returns where they end, or −1: with them the packet fits no slot. */
export function writeHeader(out: Uint8Array, packet: RtpView, target: FanOutTarget): number {
  const { extensions, sentAtMs, transportSequence, paddingLength } = target;
  const end = extensions.write(out, RTP_HEADER_BYTES, packet, sentAtMs, transportSequence);
  // A publisher may send thousands of empty elements, which grow in the form a viewer needs.
  if (end + RTX_BYTES + packet.payloadLength + paddingLength + SRTP_MAX_OVERHEAD > SEND_SLOT_BYTES) return -1;
  out[0] = 0x80 | (end > RTP_HEADER_BYTES ? 0x10 : 0) | (paddingLength > 0 ? 0x20 : 0);
  out[1] = (target.marker ? 0x80 : 0) | target.payloadType;
  writeUint16(out, 2, target.sequenceNumber);
  writeUint32(out, 4, target.timestamp);
  writeUint32(out, 8, target.ssrc);
  return end;
}

/** Returns where the payload begins. */
export function writeOriginalSequenceNumber(out: Uint8Array, at: number, target: FanOutTarget): number {
  if (target.originalSequenceNumber < 0) return at;
  writeUint16(out, at, target.originalSequenceNumber);
  return at + RTX_BYTES;
}

export function writePrefix(out: Uint8Array, at: number, target: FanOutTarget): void {
  for (let k = 0; k < target.prefixLength; k++) out[at + k] = target.prefix[k] as number;
}

/** RFC 3550 §5.1: the last byte of the padding says how much of it there is. */
function pad(out: Uint8Array, at: number, paddingLength: number): number {
  out.fill(0, at, at + paddingLength);
  out[at + paddingLength - 1] = paddingLength;
  return at + paddingLength;
}
