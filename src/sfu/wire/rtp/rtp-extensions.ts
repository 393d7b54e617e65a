// RTP header extensions (RFC 8285): those read from a publisher's packets in one pass, and the block written for a
// subscriber. That block is a template; per packet only abs-send-time and the transport-wide sequence number change.

import { readAscii, readUint8, readUint16, readUint24, writeAscii, writeUint16, writeUint24 } from "./bytes.ts";
import { ONE_BYTE_PROFILE, type RtpView, TWO_BYTE_PROFILE } from "./rtp.ts";

export const EXTENSION_URI = {
  mid: "urn:ietf:params:rtp-hdrext:sdes:mid",
  rid: "urn:ietf:params:rtp-hdrext:sdes:rtp-stream-id",
  repairedRid: "urn:ietf:params:rtp-hdrext:sdes:repaired-rtp-stream-id",
  absSendTime: "http://www.webrtc.org/experiments/rtp-hdrext/abs-send-time",
  transportSequence: "http://www.ietf.org/id/draft-holmer-rmcat-transport-wide-cc-extensions-01",
  audioLevel: "urn:ietf:params:rtp-hdrext:ssrc-audio-level",
} as const;

/** Negotiated ids; 0 means not negotiated. */
export interface ExtensionIds {
  mid: number;
  rid: number;
  repairedRid: number;
  absSendTime: number;
  transportSequence: number;
  audioLevel: number;
}

/** The extensions of one packet. Instances are reused: `read` overwrites every field; −1 and undefined mean absent. */
export class RtpExtensions {
  transportSequence = -1;
  absSendTime = -1;
  /** −dBov, 0 (loudest) … 127 (silence). */
  audioLevel = -1;
  voice = false;
  #data: Uint8Array = new Uint8Array(0);
  #mid = 0;
  #midLength = 0;
  #rid = 0;
  #ridLength = 0;
  #repairedRid = 0;
  #repairedRidLength = 0;

  read(view: RtpView, ids: ExtensionIds): void {
    this.transportSequence = -1;
    this.absSendTime = -1;
    this.audioLevel = -1;
    this.voice = false;
    this.#data = view.data;
    this.#midLength = 0;
    this.#ridLength = 0;
    this.#repairedRidLength = 0;
    let at = view.extensionOffset;
    while (view.nextExtension(at)) {
      const { elementId: id, elementOffset: offset, elementLength: length } = view;
      at = offset + length;
      if (length === 0) continue;
      if (id === ids.transportSequence) {
        if (length >= 2) this.transportSequence = readUint16(view.data, offset);
      } else if (id === ids.absSendTime) {
        if (length >= 3) this.absSendTime = readUint24(view.data, offset);
      } else if (id === ids.audioLevel) {
        const byte = readUint8(view.data, offset);
        this.audioLevel = byte & 0x7f;
        this.voice = (byte & 0x80) !== 0;
      } else if (id === ids.mid) {
        this.#mid = offset;
        this.#midLength = length;
      } else if (id === ids.rid) {
        this.#rid = offset;
        this.#ridLength = length;
      } else if (id === ids.repairedRid) {
        this.#repairedRid = offset;
        this.#repairedRidLength = length;
      }
    }
  }

  /** Names are decoded on access, because only the first packets of an unknown SSRC need them. */
  get mid(): string | undefined {
    return this.#midLength > 0 ? readAscii(this.#data, this.#mid, this.#midLength) : undefined;
  }

  get rid(): string | undefined {
    return this.#ridLength > 0 ? readAscii(this.#data, this.#rid, this.#ridLength) : undefined;
  }

  get repairedRid(): string | undefined {
    return this.#repairedRidLength > 0 ? readAscii(this.#data, this.#repairedRid, this.#repairedRidLength) : undefined;
  }
}

export interface OutgoingExtensionOptions {
  mid?: { id: number; value: string };
  absSendTimeId?: number;
  transportSequenceId?: number;
  /** The publisher's extensions that the subscriber negotiated too: audio level, video orientation and others. */
  passThrough?: readonly { from: number; to: number }[];
  /** Elements of more than 16 bytes need the two-byte form: AV1's dependency descriptor is that long with keyframes. */
  twoByte?: boolean;
}

/** Only extensions that `passThrough` names are forwarded, never the publisher's MID or transport-wide sequence number. */
export class OutgoingExtensions {
  readonly twoByte: boolean;
  readonly template: Uint8Array;
  /** Offsets in the template; −1 when absent. */
  readonly absSendTimeAt: number;
  readonly transportSequenceAt: number;
  readonly passing: readonly { from: number; to: number }[];
  /** The outgoing id by source id, 0 for extensions that are not forwarded; undefined when none is. */
  readonly #map: Uint8Array | undefined;

  constructor(options: OutgoingExtensionOptions) {
    const { mid, absSendTimeId = 0, transportSequenceId = 0, passThrough = [] } = options;
    const ids = [mid?.id ?? 0, absSendTimeId, transportSequenceId, ...passThrough.map((pair) => pair.to)];
    this.twoByte = options.twoByte === true || ids.some((id) => id > 14) || (mid?.value.length ?? 0) > 16;
    const bytes = new Uint8Array(300);
    let at = 0;
    if (mid && mid.id > 0 && mid.value.length > 0) {
      at = this.#writeElementHeader(bytes, at, mid.id, mid.value.length);
      writeAscii(bytes, at, mid.value);
      at += mid.value.length;
    }
    this.absSendTimeAt = absSendTimeId > 0 ? this.#writeElementHeader(bytes, at, absSendTimeId, 3) : -1;
    if (absSendTimeId > 0) at = this.absSendTimeAt + 3;
    this.transportSequenceAt =
      transportSequenceId > 0 ? this.#writeElementHeader(bytes, at, transportSequenceId, 2) : -1;
    if (transportSequenceId > 0) at = this.transportSequenceAt + 2;
    this.template = bytes.slice(0, at);
    this.passing = passThrough;
    if (passThrough.length > 0) {
      this.#map = new Uint8Array(256);
      for (const { from, to } of passThrough) this.#map[from] = to;
    }
  }

  #writeElementHeader(out: Uint8Array, at: number, id: number, length: number): number {
    if (this.twoByte) {
      out[at] = id;
      out[at + 1] = length;
      return at + 2;
    }
    out[at] = (id << 4) | (length - 1);
    return at + 1;
  }

  /** Writes the block at `at` (after the 12 fixed bytes) and returns its end, or `at` when the block is empty. */
  write(out: Uint8Array, at: number, source: RtpView, nowMs: number, transportSequence: number): number {
    const start = at + 4;
    const template = this.template;
    let end = start + template.length;
    // For a dozen bytes a loop is faster than `set`.
    for (let i = 0; i < template.length; i++) out[start + i] = template[i] as number;
    if (this.absSendTimeAt >= 0) writeUint24(out, start + this.absSendTimeAt, absSendTime(nowMs));
    if (this.transportSequenceAt >= 0) writeUint16(out, start + this.transportSequenceAt, transportSequence);
    if (this.#map !== undefined) end = this.#copyFrom(source, this.#map, out, end);
    if (end === start) return at;
    while ((end - start) & 3) out[end++] = 0;
    writeUint16(out, at, this.twoByte ? TWO_BYTE_PROFILE : ONE_BYTE_PROFILE);
    writeUint16(out, at + 2, (end - start) >> 2);
    return end;
  }

  #copyFrom(source: RtpView, map: Uint8Array, out: Uint8Array, end: number): number {
    let at = source.extensionOffset;
    while (source.nextExtension(at)) {
      const { elementOffset: offset, elementLength: length } = source;
      at = offset + length;
      const id = readUint8(map, source.elementId);
      if (id === 0 || (!this.twoByte && (length === 0 || length > 16))) continue;
      end = this.#writeElementHeader(out, end, id, length);
      for (let i = 0; i < length; i++) out[end + i] = readUint8(source.data, offset + i);
      end += length;
    }
    return end;
  }
}

/** abs-send-time has 24 bits, 6.18 seconds. `%` on doubles would be slow for every packet of every subscriber. */
export function absSendTime(unixMs: number): number {
  const ticks = Math.floor((unixMs / 1000) * 262_144);
  return ticks - Math.floor(ticks / 0x1000000) * 0x1000000;
}
