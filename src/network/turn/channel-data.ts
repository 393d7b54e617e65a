/** The short form of relayed data: a channel's number, a length, and the data (RFC 8656 §12). */
export const CHANNEL_HEADER_BYTES = 4;
const FIRST_CHANNEL = 0x4000;
/** RFC 8656 leaves clients 0x4FFF; those that follow its predecessor go further, and nothing else is on this line. */
const LAST_CHANNEL = 0x7fff;

export function isChannel(number: number): boolean {
  return number >= FIRST_CHANNEL && number <= LAST_CHANNEL;
}

/** Tells it from STUN, whose first byte is below 4. */
export function isChannelData(message: Buffer): boolean {
  return (message[0] ?? 0) >> 6 === 1;
}

/** Undefined when it is shorter than it says. Over UDP and TCP alike there may be padding behind the data. */
export function readChannelData(message: Buffer): { channel: number; data: Buffer } | undefined {
  if (message.length < CHANNEL_HEADER_BYTES) return undefined;
  const end = CHANNEL_HEADER_BYTES + message.readUInt16BE(2);
  if (end > message.length) return undefined;
  return { channel: message.readUInt16BE(0), data: message.subarray(CHANNEL_HEADER_BYTES, end) };
}

/** Returns the length written; on a stream the frame is padded to four bytes, which its length does not count. */
export function writeChannelData(out: Buffer, channel: number, data: Uint8Array, onStream: boolean): number {
  out.writeUInt16BE(channel, 0);
  out.writeUInt16BE(data.length, 2);
  out.set(data, CHANNEL_HEADER_BYTES);
  let end = CHANNEL_HEADER_BYTES + data.length;
  if (onStream) while (end & 3) out[end++] = 0;
  return end;
}
