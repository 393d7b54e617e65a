// RTP headers (RFC 3550, RFC 8285): a view of a received packet, and in-place rewriting.

import { readUint8, readUint16, readUint32, writeUint16, writeUint32 } from "./bytes.ts";

export const RTP_HEADER_BYTES = 12;
export const ONE_BYTE_PROFILE = 0xbede;
export const TWO_BYTE_PROFILE = 0x1000;

/** RFC 5761: the second byte distinguishes RTCP (192 … 223) from RTP. */
export function isRtcp(data: Uint8Array): boolean {
  if (data.length < 2) return false;
  const type = readUint8(data, 1);
  return type >= 192 && type <= 223;
}

/** The header length with CSRCs and extensions, or −1 when the packet is not well-formed RTP. */
export function rtpHeaderLength(data: Uint8Array, length = data.length): number {
  if (length < RTP_HEADER_BYTES) return -1;
  const first = readUint8(data, 0);
  if (first >> 6 !== 2) return -1;
  let offset = RTP_HEADER_BYTES + (first & 0x0f) * 4;
  if (first & 0x10) {
    if (offset + 4 > length) return -1;
    offset += 4 + readUint16(data, offset + 2) * 4;
  }
  return offset <= length ? offset : -1;
}

/** Instances are reused: `parse` overwrites every field. */
export class RtpView {
  data: Uint8Array = new Uint8Array(0);
  length = 0;
  marker = false;
  payloadType = 0;
  sequenceNumber = 0;
  timestamp = 0;
  ssrc = 0;
  /** 0 without an extension, else the profile word (0xBEDE, 0x1000 …). */
  extensionProfile = 0;
  extensionOffset = 0;
  extensionLength = 0;
  payloadOffset = 0;
  /** Without padding; 0 for packets that only probe the bandwidth. */
  payloadLength = 0;
  paddingLength = 0;

  /** The extension element found last. */
  elementId = 0;
  elementOffset = 0;
  elementLength = 0;

  parse(data: Uint8Array, length = data.length): boolean {
    const headerLength = rtpHeaderLength(data, length);
    if (headerLength < 0) return false;
    const first = readUint8(data, 0);
    let paddingLength = 0;
    if (first & 0x20) {
      paddingLength = headerLength < length ? readUint8(data, length - 1) : 0;
      if (paddingLength === 0 || headerLength + paddingLength > length) return false;
    }
    const second = readUint8(data, 1);
    this.data = data;
    this.length = length;
    this.marker = (second & 0x80) !== 0;
    this.payloadType = second & 0x7f;
    this.sequenceNumber = readUint16(data, 2);
    this.timestamp = readUint32(data, 4);
    this.ssrc = readUint32(data, 8);
    if (first & 0x10) {
      const at = RTP_HEADER_BYTES + (first & 0x0f) * 4;
      this.extensionProfile = readUint16(data, at);
      this.extensionOffset = at + 4;
      this.extensionLength = headerLength - at - 4;
    } else {
      this.extensionProfile = 0;
      this.extensionOffset = headerLength;
      this.extensionLength = 0;
    }
    this.payloadOffset = headerLength;
    this.paddingLength = paddingLength;
    this.payloadLength = length - headerLength - paddingLength;
    return true;
  }

  /** Moves to the element at or after `at`; callers continue with `at = elementOffset + elementLength`. */
  nextExtension(at: number): boolean {
    const end = this.extensionOffset + this.extensionLength;
    const { data } = this;
    if (this.extensionProfile === ONE_BYTE_PROFILE) {
      while (at < end && data[at] === 0) at++;
      if (at >= end) return false;
      const byte = readUint8(data, at);
      if (byte >> 4 === 15) return false;
      this.elementId = byte >> 4;
      this.elementOffset = at + 1;
      this.elementLength = (byte & 0x0f) + 1;
      return this.elementId !== 0 && this.elementOffset + this.elementLength <= end;
    }
    if ((this.extensionProfile & 0xfff0) !== TWO_BYTE_PROFILE) return false;
    while (at < end && data[at] === 0) at++;
    if (at + 2 > end) return false;
    this.elementId = readUint8(data, at);
    this.elementOffset = at + 2;
    this.elementLength = readUint8(data, at + 1);
    return this.elementOffset + this.elementLength <= end;
  }
}

export function setPayloadType(data: Uint8Array, payloadType: number, marker: boolean): void {
  data[1] = (marker ? 0x80 : 0) | (payloadType & 0x7f);
}

export function setSequenceNumber(data: Uint8Array, sequenceNumber: number): void {
  writeUint16(data, 2, sequenceNumber);
}

export function setSsrc(data: Uint8Array, ssrc: number): void {
  writeUint32(data, 8, ssrc);
}
