/**
 * Validates SCTP packets before werift's association reads them. Without it a chunk length of zero makes werift loop forever, a
 * gap report of a few bytes makes it count for minutes, and fragments that never complete are kept without a bound.
 */

const COMMON_HEADER_BYTES = 12;
const CHUNK_HEADER_BYTES = 4;
const DATA_HEADER_BYTES = 12;
const INIT_BYTES = 16;
const SACK_BYTES = 12;
/** How far a packet may be ahead of the last one in order, because werift scans all of them for each. */
const MAX_AHEAD = 1_024;
const MAX_STREAMS = 1_024;

const CHUNK = {
  ...{ data: 0, init: 1, initAck: 2, sack: 3, heartbeat: 4, heartbeatAck: 5, abort: 6, error: 9 },
  ...{ reconfig: 130, forwardTsn: 192 },
} as const;

/** The last TSN that the association received in order, and its receive window. */
export type SctpProgress = { readonly lastReceivedTsn?: number; readonly advertisedRwnd: number };

export function isSoundSctp(packet: Buffer, progress: SctpProgress): boolean {
  let at = COMMON_HEADER_BYTES;
  while (at + CHUNK_HEADER_BYTES <= packet.length) {
    const length = packet.readUInt16BE(at + 2);
    if (length < CHUNK_HEADER_BYTES || at + length > packet.length) return false;
    const body = packet.subarray(at + CHUNK_HEADER_BYTES, at + length);
    if (!isSoundChunk(packet[at], body, progress)) return false;
    at += padded(length);
  }
  return true;
}

function isSoundChunk(type: number | undefined, body: Buffer, progress: SctpProgress): boolean {
  switch (type) {
    case CHUNK.data:
      return isSoundData(body, progress);
    case CHUNK.init:
    case CHUNK.initAck:
      return body.length >= INIT_BYTES && areSoundParameters(body.subarray(INIT_BYTES));
    case CHUNK.sack:
      return isSoundSack(body);
    case CHUNK.heartbeat:
    case CHUNK.heartbeatAck:
    case CHUNK.abort:
    case CHUNK.error:
    case CHUNK.reconfig:
      return areSoundParameters(body);
    case CHUNK.forwardTsn:
      return body.length >= 4 && body.length % 4 === 0;
    default:
      return true;
  }
}

function isSoundData(body: Buffer, { lastReceivedTsn, advertisedRwnd }: SctpProgress): boolean {
  if (body.length < DATA_HEADER_BYTES || lastReceivedTsn === undefined || advertisedRwnd <= 0) return false;
  const ahead = (body.readUInt32BE(0) - lastReceivedTsn) >>> 0;
  const isRepeated = ahead === 0 || ahead > 2 ** 31;
  return (ahead <= MAX_AHEAD || isRepeated) && body.readUInt16BE(4) < MAX_STREAMS;
}

/** Gap blocks must be in ascending order. */
function isSoundSack(body: Buffer): boolean {
  if (body.length < SACK_BYTES) return false;
  const gaps = body.readUInt16BE(8);
  const duplicates = body.readUInt16BE(10);
  if (body.length < SACK_BYTES + 4 * (gaps + duplicates)) return false;
  let end = 0;
  for (let i = 0; i < gaps; i++) {
    const start = body.readUInt16BE(SACK_BYTES + 4 * i);
    if (start <= end) return false;
    end = body.readUInt16BE(SACK_BYTES + 4 * i + 2);
    if (end < start) return false;
  }
  return true;
}

function areSoundParameters(body: Buffer): boolean {
  let at = 0;
  while (at + 4 <= body.length) {
    const length = body.readUInt16BE(at + 2);
    if (length < 4 || at + length > body.length) return false;
    at += padded(length);
  }
  return true;
}

const padded = (length: number) => (length + 3) & ~3;
