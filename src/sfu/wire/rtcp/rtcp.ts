// Parses RTCP (RFC 3550, 4585, 5104, REMB). A compound packet is split by its length fields first, so that nothing is read past
// the end of a packet. A malformed packet ends the parsing; packets before it are returned.

import { readAscii, readUint8, readUint16, readUint24, readUint32 } from "../rtp/bytes.ts";

export const RTCP_TYPE = {
  sr: 200,
  rr: 201,
  sdes: 202,
  bye: 203,
  app: 204,
  rtpFeedback: 205,
  payloadFeedback: 206,
} as const;

export interface ReportBlock {
  ssrc: number;
  /** In 1/256. */
  fractionLost: number;
  /** Negative with duplicates. */
  cumulativeLost: number;
  highestSequence: number;
  /** In units of the clock rate. */
  jitter: number;
  lastSenderReport: number;
  delaySinceLastSenderReport: number;
}

export interface SenderReport {
  type: "sr";
  ssrc: number;
  ntpSeconds: number;
  ntpFraction: number;
  rtpTimestamp: number;
  packetCount: number;
  octetCount: number;
  reports: ReportBlock[];
}

export type RtcpPacket =
  | SenderReport
  | { type: "rr"; ssrc: number; reports: ReportBlock[] }
  | { type: "sdes"; chunks: { ssrc: number; cname: string | undefined }[] }
  | { type: "bye"; ssrcs: number[] }
  | { type: "app"; subtype: number; ssrc: number; name: string; words: number[] }
  | { type: "pli"; senderSsrc: number; mediaSsrc: number }
  | { type: "fir"; senderSsrc: number; requests: { ssrc: number; sequence: number }[] }
  | { type: "nack"; senderSsrc: number; mediaSsrc: number; lost: number[] }
  | { type: "remb"; senderSsrc: number; bitrate: number; ssrcs: number[] }
  /** Read by `TransportFeedback`. */
  | ({ type: "transport-feedback"; senderSsrc: number; mediaSsrc: number } & RtcpBytes);

/** One packet within a compound, without the cost of a subarray. */
export type RtcpBytes = { data: Uint8Array; start: number; end: number };

export function parseRtcp(data: Uint8Array, length = data.length): RtcpPacket[] {
  const packets: RtcpPacket[] = [];
  let offset = 0;
  while (offset + 4 <= length) {
    const first = readUint8(data, offset);
    if (first >> 6 !== 2) break;
    const packetEnd = offset + 4 + readUint16(data, offset + 2) * 4;
    if (packetEnd > length) break;
    let end = packetEnd;
    if (first & 0x20) {
      const padding = readUint8(data, end - 1);
      // Only the last packet may be padded. Transport-wide feedback has padding of 1 … 3 bytes, against RFC 3550 §6.4.1.
      if (padding === 0 || packetEnd !== length || offset + 4 + padding > end) break;
      end -= padding;
    }
    const packet = parseOne(data, offset, end, first & 0x1f, readUint8(data, offset + 1));
    if (packet !== undefined) packets.push(packet);
    offset = packetEnd;
  }
  return packets;
}

function parseOne(data: Uint8Array, offset: number, end: number, count: number, type: number): RtcpPacket | undefined {
  const at = offset + 4;
  switch (type) {
    case RTCP_TYPE.sr:
      if (at + 24 + count * 24 > end) return undefined;
      return {
        type: "sr",
        ssrc: readUint32(data, at),
        ntpSeconds: readUint32(data, at + 4),
        ntpFraction: readUint32(data, at + 8),
        rtpTimestamp: readUint32(data, at + 12),
        packetCount: readUint32(data, at + 16),
        octetCount: readUint32(data, at + 20),
        reports: parseReports(data, at + 24, count),
      };
    case RTCP_TYPE.rr:
      if (at + 4 + count * 24 > end) return undefined;
      return { type: "rr", ssrc: readUint32(data, at), reports: parseReports(data, at + 4, count) };
    case RTCP_TYPE.sdes:
      return parseSdes(data, at, end, count);
    case RTCP_TYPE.bye:
      if (at + count * 4 > end) return undefined;
      return { type: "bye", ssrcs: readSsrcs(data, at, count) };
    case RTCP_TYPE.app:
      if (at + 8 > end) return undefined;
      return {
        type: "app",
        subtype: count,
        ssrc: readUint32(data, at),
        name: readAscii(data, at + 4, 4),
        words: readSsrcs(data, at + 8, Math.floor((end - at - 8) / 4)),
      };
    case RTCP_TYPE.rtpFeedback:
      return parseRtpFeedback(data, offset, end, count);
    case RTCP_TYPE.payloadFeedback:
      return parsePayloadFeedback(data, at, end, count);
    default:
      return undefined;
  }
}

function parseReports(data: Uint8Array, offset: number, count: number): ReportBlock[] {
  const reports: ReportBlock[] = [];
  for (let at = offset; at < offset + count * 24; at += 24) {
    reports.push({
      ssrc: readUint32(data, at),
      fractionLost: readUint8(data, at + 4),
      cumulativeLost: (readUint24(data, at + 5) << 8) >> 8,
      highestSequence: readUint32(data, at + 8),
      jitter: readUint32(data, at + 12),
      lastSenderReport: readUint32(data, at + 16),
      delaySinceLastSenderReport: readUint32(data, at + 20),
    });
  }
  return reports;
}

function parseSdes(data: Uint8Array, offset: number, end: number, count: number): RtcpPacket {
  const chunks: { ssrc: number; cname: string | undefined }[] = [];
  let at = offset;
  for (let i = 0; i < count && at + 8 <= end; i++) {
    const ssrc = readUint32(data, at);
    let cname: string | undefined;
    let item = at + 4;
    while (item < end && data[item] !== 0) {
      if (item + 2 > end || item + 2 + readUint8(data, item + 1) > end) return { type: "sdes", chunks };
      const length = readUint8(data, item + 1);
      if (data[item] === 1) cname = readAscii(data, item + 2, length);
      item += 2 + length;
    }
    chunks.push({ ssrc, cname });
    // One to four zero bytes end the chunk at the next word.
    at += (item - at + 4) & ~3;
  }
  return { type: "sdes", chunks };
}

function parseRtpFeedback(data: Uint8Array, offset: number, end: number, format: number): RtcpPacket | undefined {
  if (offset + 12 > end) return undefined;
  const senderSsrc = readUint32(data, offset + 4);
  const mediaSsrc = readUint32(data, offset + 8);
  if (format === 15) {
    return { type: "transport-feedback", senderSsrc, mediaSsrc, data, start: offset, end };
  }
  if (format !== 1) return undefined;
  const lost: number[] = [];
  for (let at = offset + 12; at + 4 <= end; at += 4) {
    const first = readUint16(data, at);
    lost.push(first);
    let mask = readUint16(data, at + 2);
    for (let sequence = first + 1; mask !== 0; sequence++, mask >>= 1) {
      if (mask & 1) lost.push(sequence & 0xffff);
    }
  }
  return { type: "nack", senderSsrc, mediaSsrc, lost };
}

function parsePayloadFeedback(data: Uint8Array, at: number, end: number, format: number): RtcpPacket | undefined {
  if (at + 8 > end) return undefined;
  const senderSsrc = readUint32(data, at);
  const mediaSsrc = readUint32(data, at + 4);
  if (format === 1) return { type: "pli", senderSsrc, mediaSsrc };
  if (format === 4) {
    const requests: { ssrc: number; sequence: number }[] = [];
    for (let entry = at + 8; entry + 8 <= end; entry += 8) {
      requests.push({ ssrc: readUint32(data, entry), sequence: readUint8(data, entry + 4) });
    }
    return { type: "fir", senderSsrc, requests };
  }
  if (format !== 15 || at + 16 > end || readAscii(data, at + 8, 4) !== "REMB") return undefined;
  const word = readUint24(data, at + 13);
  const bitrate = (word & 0x3ffff) * 2 ** (word >> 18);
  const count = readUint8(data, at + 12);
  if (at + 16 + count * 4 > end) return undefined;
  return { type: "remb", senderSsrc, bitrate, ssrcs: readSsrcs(data, at + 16, count) };
}

function readSsrcs(data: Uint8Array, offset: number, count: number): number[] {
  const ssrcs: number[] = [];
  for (let i = 0; i < count; i++) ssrcs.push(readUint32(data, offset + i * 4));
  return ssrcs;
}
