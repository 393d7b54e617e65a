/** The last step of a packet, in TypeScript: every subscriber's copy gets its header, is protected, and is queued in the batch. */
import { createTarget, type FanOutTarget, type FanOutTransport } from "../forwarding/fan-out-target.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import { writeUint16, writeUint32 } from "../wire/rtp/bytes.ts";
import { RTP_HEADER_BYTES, type RtpView } from "../wire/rtp/rtp.ts";
import { OutgoingExtensions } from "../wire/rtp/rtp-extensions.ts";
import { SRTP_MAX_OVERHEAD } from "../wire/srtp/srtp.ts";
import type { FanOutGroup } from "./fan-out-group.ts";
import { PACKET_BUFFER_BYTES, type SendBatch } from "./send-batch.ts";
import { describeCopy } from "./subscriber-slot.ts";

/** Writes the copies of a packet for all subscribers of the group. The batch sends itself when it is full. */
export type GroupFanOut = (packet: SourcePacket, group: FanOutGroup, nowMs: number, batch: SendBatch) => void;

/** What a packet may grow by: added or widened extensions, RTX's sequence number, padding and the authentication tag. */
const MAX_GROWTH = 320 + 255 + SRTP_MAX_OVERHEAD;

const RTX_BYTES = 2;
const SEQUENCE_CYCLE = 0x10000;

/** Larger packets are not forwarded: no known network carries them. */
export const MAX_PACKET_BYTES = PACKET_BUFFER_BYTES - MAX_GROWTH;

/** Writes the copies of `packet` for the first `count` targets. */
export function fanOut(packet: RtpView, targets: readonly FanOutTarget[], count: number, batch: SendBatch): void {
  const { payloadOffset, payloadLength } = packet;
  if (packet.length > MAX_PACKET_BYTES) return;
  const payload = packet.data.subarray(payloadOffset, payloadOffset + payloadLength);
  for (let i = 0; i < count; i++) {
    const target = targets[i] as FanOutTarget;
    const { transport } = target;
    const out = batch.buffer();
    const headerLength = writeHeader(out, packet, target);
    if (headerLength < 0) continue;
    const at = writeOriginalSequenceNumber(out, headerLength, target);
    out.set(payload, at);
    writePrefix(out, at, target);
    const end = target.paddingLength > 0 ? pad(out, at + payloadLength, target.paddingLength) : at + payloadLength;
    const length = transport.srtp.protectRtp(out, headerLength, end);
    if (length === 0) continue;
    if (transport.deliver === undefined) batch.commit(length, transport.port, transport.address);
    else transport.deliver(out.subarray(0, length));
  }
}

const NOWHERE: FanOutTransport = {
  get srtp(): never {
    throw new Error("a placeholder sends nothing");
  },
  address: "",
  port: 0,
  deliver: undefined,
  slots: new Set(),
};

export function createGroupFanOut(): GroupFanOut {
  const target = createTarget(NOWHERE, new OutgoingExtensions({}));
  // Header and payload are written to the same two buffers for every copy, because a view of memory for each costs more than its copy.
  const header = new Uint8Array(PACKET_BUFFER_BYTES);
  const headers: Uint8Array[] = [];
  const plain = new Uint8Array(PACKET_BUFFER_BYTES);
  return (packet, { table }, nowMs, batch) => {
    const { view } = packet;
    if (view.length > MAX_PACKET_BYTES) return;
    plain.set(view.data.subarray(view.payloadOffset, view.payloadOffset + view.payloadLength));
    const body = plain.subarray(0, view.payloadLength);
    for (const slot of table.slots) {
      const outgoing = describeCopy(slot, packet, nowMs, target);
      if (slot.numbers !== null) target.transportSequence = slot.numbers.next(view.length, nowMs, 0, outgoing);
      const headerLength = writeHeader(header, view, target);
      if (headerLength < 0) continue;
      writePrefix(plain, 0, target);
      const { srtp, port, address } = slot.transport;
      const rollover = Math.floor(outgoing / SEQUENCE_CYCLE);
      headers[headerLength] ??= header.subarray(0, headerLength);
      batch.commit(
        srtp.cipher.sealRtp(headers[headerLength], body, batch.buffer(), rollover, target.sequenceNumber),
        port,
        address,
      );
    }
  };
}

/** Writes the fixed header and the extensions. Returns where they end, or −1 when the packet fits no buffer with them. */
function writeHeader(out: Uint8Array, packet: RtpView, target: FanOutTarget): number {
  const { extensions, sentAtMs, transportSequence, paddingLength } = target;
  const end = extensions.write(out, RTP_HEADER_BYTES, packet, sentAtMs, transportSequence);
  // A publisher may send thousands of empty elements, which grow in the two-byte form that a subscriber may need.
  if (end + RTX_BYTES + packet.payloadLength + paddingLength + SRTP_MAX_OVERHEAD > PACKET_BUFFER_BYTES) return -1;
  out[0] = 0x80 | (end > RTP_HEADER_BYTES ? 0x10 : 0) | (paddingLength > 0 ? 0x20 : 0);
  out[1] = (target.marker ? 0x80 : 0) | target.payloadType;
  writeUint16(out, 2, target.sequenceNumber);
  writeUint32(out, 4, target.timestamp);
  writeUint32(out, 8, target.ssrc);
  return end;
}

/** Returns where the payload begins. */
function writeOriginalSequenceNumber(out: Uint8Array, at: number, target: FanOutTarget): number {
  if (target.originalSequenceNumber < 0) return at;
  writeUint16(out, at, target.originalSequenceNumber);
  return at + RTX_BYTES;
}

function writePrefix(out: Uint8Array, at: number, target: FanOutTarget): void {
  for (let k = 0; k < target.prefixLength; k++) out[at + k] = target.prefix[k] as number;
}

/** RFC 3550 §5.1: the last byte of the padding is its length. */
function pad(out: Uint8Array, at: number, paddingLength: number): number {
  out.fill(0, at, at + paddingLength);
  out[at + paddingLength - 1] = paddingLength;
  return at + paddingLength;
}
