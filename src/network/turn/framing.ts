import { STUN_HEADER_BYTES } from "../../sfu/wire/stun/stun.ts";
import { padded } from "./message.ts";

/** ChannelData, the short form of relayed data: channel number, length and data (RFC 8656 §12). */
const CHANNEL_HEADER_BYTES = 4;
const FIRST_CHANNEL = 0x4000;
/** The range of RFC 8656 ends at 0x4FFF, and clients of its predecessor use higher numbers. */
const LAST_CHANNEL = 0x7fff;

export function isChannel(number: number): boolean {
  return number >= FIRST_CHANNEL && number <= LAST_CHANNEL;
}

/** A STUN message starts with a byte below 4. */
export function isChannelData(message: Buffer): boolean {
  return (message[0] ?? 0) >> 6 === 1;
}

/** Undefined when the message is shorter than its length field. Padding may follow the data. */
export function readChannelData(message: Buffer): { channel: number; data: Buffer } | undefined {
  if (message.length < CHANNEL_HEADER_BYTES) return undefined;
  const end = CHANNEL_HEADER_BYTES + message.readUInt16BE(2);
  if (end > message.length) return undefined;
  return { channel: message.readUInt16BE(0), data: message.subarray(CHANNEL_HEADER_BYTES, end) };
}

/** Returns the length written. On a stream the frame is padded to four bytes, which its length field does not count. */
export function writeChannelData(out: Buffer, channel: number, data: Uint8Array, onStream: boolean): number {
  out.writeUInt16BE(channel, 0);
  out.writeUInt16BE(data.length, 2);
  out.set(data, CHANNEL_HEADER_BYTES);
  let end = CHANNEL_HEADER_BYTES + data.length;
  if (onStream) while (end & 3) out[end++] = 0;
  return end;
}

export const MAX_MESSAGE_BYTES = 2_304;

const NOT_TURN = -1;
const INCOMPLETE = 0;

export class TurnStream {
  #held: Buffer = Buffer.alloc(0);

  /** False when the bytes are not TURN. The messages are valid during the call only. */
  push(chunk: Buffer, onMessage: (message: Buffer) => void): boolean {
    let rest = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    for (;;) {
      const size = messageSize(rest);
      if (size === NOT_TURN) return false;
      if (size === INCOMPLETE || size > rest.length) break;
      onMessage(rest.subarray(0, size));
      rest = rest.subarray(size);
    }
    // The socket reuses the chunk afterwards, so the rest is copied.
    this.#held = rest.length === 0 ? rest : Buffer.from(rest);
    return true;
  }
}

function messageSize(data: Buffer): number {
  if (data.length === 0) return INCOMPLETE;
  const isStun = data.readUInt8(0) < 4;
  if (!isStun && !isChannelData(data)) return NOT_TURN;
  if (data.length < CHANNEL_HEADER_BYTES) return INCOMPLETE;
  const length = data.readUInt16BE(2);
  if (isStun && (length & 3) !== 0) return NOT_TURN;
  const size = isStun ? STUN_HEADER_BYTES + length : CHANNEL_HEADER_BYTES + padded(length);
  return size > MAX_MESSAGE_BYTES ? NOT_TURN : size;
}
