// Redundant audio (RFC 2198): each packet repeats earlier frames before the newest. A subscriber that did not negotiate RED
// gets the newest only.

import { readUint8, readUint16 } from "../rtp/bytes.ts";
import type { RtpView } from "../rtp/rtp.ts";

const REDUNDANT_HEADER_BYTES = 4;

/** Makes `out` a view of the same packet with the primary block as payload; false when the blocks do not fit the packet. */
export function primaryOfRed(view: RtpView, out: RtpView): boolean {
  const { data, payloadOffset, payloadLength, length } = view;
  const end = payloadOffset + payloadLength;
  let at = payloadOffset;
  let redundantBytes = 0;
  while (at < end && readUint8(data, at) & 0x80) {
    if (at + REDUNDANT_HEADER_BYTES > end) return false;
    redundantBytes += readUint16(data, at + 2) & 0x3ff;
    at += REDUNDANT_HEADER_BYTES;
  }
  const primary = at + 1 + redundantBytes;
  if (at >= end || primary > end || !out.parse(data, length)) return false;
  out.payloadOffset = primary;
  out.payloadLength = end - primary;
  return true;
}
