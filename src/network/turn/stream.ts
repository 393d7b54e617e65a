import { CHANNEL_HEADER_BYTES, isChannelData } from "./channel-data.ts";
import { HEADER_BYTES, padded } from "./message.ts";

/** Nothing that WebRTC sends comes near; what claims more is no TURN client. */
export const MAX_MESSAGE_BYTES = 2_304;

const NOT_TURN = -1;
const UNKNOWN_YET = 0;

/** Cuts the bytes of a TCP or TLS connection into messages. */
export class TurnStream {
  #held: Buffer = Buffer.alloc(0);

  /** False when this is no TURN: nothing behind it can be understood. The messages are valid during the call only. */
  push(chunk: Buffer, onMessage: (message: Buffer) => void): boolean {
    let rest = this.#held.length === 0 ? chunk : Buffer.concat([this.#held, chunk]);
    for (;;) {
      const size = messageSize(rest);
      if (size === NOT_TURN) return false;
      if (size === UNKNOWN_YET || size > rest.length) break;
      onMessage(rest.subarray(0, size));
      rest = rest.subarray(size);
    }
    // A copy: the chunk is the socket's again afterwards.
    this.#held = rest.length === 0 ? rest : Buffer.from(rest);
    return true;
  }
}

function messageSize(data: Buffer): number {
  if (data.length === 0) return UNKNOWN_YET;
  const isStun = data.readUInt8(0) < 4;
  if (!isStun && !isChannelData(data)) return NOT_TURN;
  if (data.length < CHANNEL_HEADER_BYTES) return UNKNOWN_YET;
  const length = data.readUInt16BE(2);
  if (isStun && (length & 3) !== 0) return NOT_TURN;
  const size = isStun ? HEADER_BYTES + length : CHANNEL_HEADER_BYTES + padded(length);
  return size > MAX_MESSAGE_BYTES ? NOT_TURN : size;
}
