// Packets that only tests write, and parts of packets that only tests read.

import { readUint8, readUint16, writeUint32 } from "../../src/sfu/wire/rtp/bytes.ts";
import type { RtpView } from "../../src/sfu/wire/rtp/rtp.ts";
import type { StunMessage } from "../../src/sfu/wire/stun/stun.ts";

export function hex(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(Buffer.from(text.replace(/\s/g, ""), "hex"));
}

/** The packet in a buffer with room to grow. */
export function withRoom(packet: Uint8Array, room = 64): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(packet.length + room);
  out.set(packet);
  return out;
}

interface PacketShape {
  sequenceNumber?: number;
  timestamp?: number;
  ssrc?: number;
  payloadType?: number;
  marker?: boolean;
  csrcs?: number;
  /** Raw words of a one-byte extension block, zero-filled. */
  extensionWords?: number;
  /** Elements of an extension block, of the two-byte form where one needs it. */
  extensions?: { id: number; data: Uint8Array }[];
  payload?: Uint8Array | number;
  padding?: number;
}

export function rtpPacket(shape: PacketShape = {}): Uint8Array<ArrayBuffer> {
  const { csrcs = 0, extensions = [], payload = 30, padding = 0 } = shape;
  const body =
    typeof payload === "number" ? Uint8Array.from({ length: payload }, (_, i) => (i * 31 + 7) & 0xff) : payload;
  const elements: number[] = [];
  const twoByte = extensions.some(({ data }) => data.length > 16);
  for (const { id, data } of extensions)
    elements.push(...(twoByte ? [id, data.length] : [(id << 4) | (data.length - 1)]), ...data);
  while (elements.length & 3) elements.push(0);
  const words = shape.extensionWords ?? elements.length / 4;
  const hasExtension = words > 0;
  const bytes: number[] = [
    0x80 | (padding > 0 ? 0x20 : 0) | (hasExtension ? 0x10 : 0) | csrcs,
    (shape.marker ? 0x80 : 0) | (shape.payloadType ?? 96),
    ...be(shape.sequenceNumber ?? 1, 2),
    ...be(shape.timestamp ?? 0, 4),
    ...be(shape.ssrc ?? 0x11223344, 4),
  ];
  for (let i = 0; i < csrcs; i++) bytes.push(...be(i + 1, 4));
  if (hasExtension) {
    bytes.push(...(twoByte ? [0x10, 0] : [0xbe, 0xde]), ...be(words, 2));
    for (let i = 0; i < words * 4; i++) bytes.push(elements[i] ?? 0);
  }
  bytes.push(...body);
  for (let i = 0; i < padding; i++) bytes.push(i === padding - 1 ? padding : 0);
  return Uint8Array.from(bytes);
}

function be(value: number, size: number): number[] {
  return Array.from({ length: size }, (_, i) => Math.floor(value / 256 ** (size - 1 - i)) & 0xff);
}

/** Sets `elementOffset` and `elementLength` of the view; returns false when the packet has no such extension. */
export function findExtension(view: RtpView, id: number): boolean {
  let at = view.extensionOffset;
  while (view.nextExtension(at)) {
    if (view.elementId === id) return true;
    at = view.elementOffset + view.elementLength;
  }
  return false;
}

/** XOR-MAPPED-ADDRESS of a response. */
export function readMappedAddress({
  data,
  xorMappedAddressOffset: at,
}: StunMessage): { address: Uint8Array; port: number } | undefined {
  if (at < 0) return undefined;
  const size = readUint8(data, at + 1) === 1 ? 4 : 16;
  const address = new Uint8Array(size);
  for (let i = 0; i < size; i++) address[i] = readUint8(data, at + 4 + i) ^ readUint8(data, 4 + i);
  return { address, port: readUint16(data, at + 2) ^ 0x2112 };
}

export function writeBye(out: Uint8Array, at: number, ssrcs: readonly number[]): number {
  out.set([0x80 | ssrcs.length, 203, 0, ssrcs.length], at);
  for (const [i, ssrc] of ssrcs.entries()) writeUint32(out, at + 4 + i * 4, ssrc);
  return at + 4 + ssrcs.length * 4;
}

export function writeFir(
  out: Uint8Array,
  at: number,
  senderSsrc: number,
  requests: readonly { ssrc: number; sequence: number }[],
): number {
  out.set([0x84, 206, 0, 2 + requests.length * 2], at);
  writeUint32(out, at + 4, senderSsrc);
  writeUint32(out, at + 8, 0);
  let end = at + 12;
  for (const { ssrc, sequence } of requests) {
    writeUint32(out, end, ssrc);
    writeUint32(out, end + 4, sequence * 0x1000000);
    end += 8;
  }
  return end;
}
