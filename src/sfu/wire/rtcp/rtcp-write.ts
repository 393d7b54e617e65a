// Writes RTCP packets. Each function writes at `at` and returns the new end, so that a compound packet is a chain of calls.
// Transport-wide feedback is in `twcc.ts` and must be sent alone.

import { writeAscii, writeUint16, writeUint24, writeUint32 } from "../rtp/bytes.ts";
import { sequenceDiff } from "../rtp/sequence.ts";
import { type ReportBlock, RTCP_TYPE } from "./rtcp.ts";

const MAX_REPORT_BLOCKS = 31;

function writeHeader(out: Uint8Array, at: number, count: number, type: number, end: number): number {
  out[at] = 0x80 | count;
  out[at + 1] = type;
  writeUint16(out, at + 2, (end - at) / 4 - 1);
  return end;
}

export function writeSenderReport(
  out: Uint8Array,
  at: number,
  report: {
    ssrc: number;
    ntpSeconds: number;
    ntpFraction: number;
    rtpTimestamp: number;
    packetCount: number;
    octetCount: number;
  },
  reports: readonly ReportBlock[] = [],
): number {
  writeUint32(out, at + 4, report.ssrc);
  writeUint32(out, at + 8, report.ntpSeconds);
  writeUint32(out, at + 12, report.ntpFraction);
  writeUint32(out, at + 16, report.rtpTimestamp);
  writeUint32(out, at + 20, report.packetCount);
  writeUint32(out, at + 24, report.octetCount);
  const count = Math.min(reports.length, MAX_REPORT_BLOCKS);
  return writeHeader(out, at, count, RTCP_TYPE.sr, writeReports(out, at + 28, reports, count));
}

export function writeReceiverReport(
  out: Uint8Array,
  at: number,
  ssrc: number,
  reports: readonly ReportBlock[],
): number {
  writeUint32(out, at + 4, ssrc);
  const count = Math.min(reports.length, MAX_REPORT_BLOCKS);
  return writeHeader(out, at, count, RTCP_TYPE.rr, writeReports(out, at + 8, reports, count));
}

function writeReports(out: Uint8Array, at: number, reports: readonly ReportBlock[], count: number): number {
  for (const report of reports.slice(0, count)) {
    writeUint32(out, at, report.ssrc);
    out[at + 4] = report.fractionLost;
    const lost = Math.max(-0x800000, Math.min(0x7fffff, report.cumulativeLost));
    writeUint24(out, at + 5, lost & 0xffffff);
    writeUint32(out, at + 8, report.highestSequence);
    writeUint32(out, at + 12, report.jitter);
    writeUint32(out, at + 16, report.lastSenderReport);
    writeUint32(out, at + 20, report.delaySinceLastSenderReport);
    at += 24;
  }
  return at;
}

/** Writes SDES with one chunk and its CNAME of at most 255 ASCII characters. */
export function writeSdes(out: Uint8Array, at: number, ssrc: number, cname: string): number {
  writeUint32(out, at + 4, ssrc);
  out[at + 8] = 1;
  out[at + 9] = cname.length;
  writeAscii(out, at + 10, cname);
  let end = at + 10 + cname.length;
  do out[end++] = 0;
  while ((end - at) & 3);
  return writeHeader(out, at, 1, RTCP_TYPE.sdes, end);
}

/** Writes an application-defined packet; the name has four characters. */
export function writeApp(
  out: Uint8Array,
  at: number,
  { subtype, ssrc, name, words }: { subtype: number; ssrc: number; name: string; words: readonly number[] },
): number {
  writeUint32(out, at + 4, ssrc);
  writeAscii(out, at + 8, name);
  for (const [i, word] of words.entries()) writeUint32(out, at + 12 + i * 4, word);
  return writeHeader(out, at, subtype, RTCP_TYPE.app, at + 12 + words.length * 4);
}

export function writePli(out: Uint8Array, at: number, senderSsrc: number, mediaSsrc: number): number {
  writeUint32(out, at + 4, senderSsrc);
  writeUint32(out, at + 8, mediaSsrc);
  return writeHeader(out, at, 1, RTCP_TYPE.payloadFeedback, at + 12);
}

/** Any order of `lost` is correct; ascending order on the 16-bit circle packs best. */
export function writeNack(
  out: Uint8Array,
  at: number,
  senderSsrc: number,
  mediaSsrc: number,
  lost: readonly number[],
): number {
  writeUint32(out, at + 4, senderSsrc);
  writeUint32(out, at + 8, mediaSsrc);
  let end = at + 12;
  let base = -1;
  let mask = 0;
  for (const sequence of lost) {
    const diff = base < 0 ? 0 : sequenceDiff(sequence, base);
    if (base >= 0 && diff >= 1 && diff <= 16) {
      mask |= 1 << (diff - 1);
      writeUint16(out, end - 2, mask);
    } else if (base < 0 || diff !== 0) {
      base = sequence;
      mask = 0;
      writeUint16(out, end, base);
      writeUint16(out, end + 2, 0);
      end += 4;
    }
  }
  return writeHeader(out, at, 1, RTCP_TYPE.rtpFeedback, end);
}

export function writeRemb(
  out: Uint8Array,
  at: number,
  senderSsrc: number,
  bitrate: number,
  ssrcs: readonly number[],
): number {
  writeUint32(out, at + 4, senderSsrc);
  writeUint32(out, at + 8, 0);
  writeAscii(out, at + 12, "REMB");
  let exponent = 0;
  let mantissa = Math.max(0, Math.floor(bitrate));
  while (mantissa > 0x3ffff) {
    mantissa = Math.floor(mantissa / 2);
    exponent += 1;
  }
  out[at + 16] = ssrcs.length;
  writeUint24(out, at + 17, (Math.min(exponent, 63) << 18) | mantissa);
  for (const [i, ssrc] of ssrcs.entries()) writeUint32(out, at + 20 + i * 4, ssrc);
  return writeHeader(out, at, 15, RTCP_TYPE.payloadFeedback, at + 20 + ssrcs.length * 4);
}
