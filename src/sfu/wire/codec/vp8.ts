// VP8 payload descriptor (RFC 7741): frame starts, keyframe sizes and continuous picture ids.

import { readUint8, readUint16, writeUint16 } from "../rtp/bytes.ts";

/** Instances are reused: `parse` overwrites every field; −1 means absent. */
export class Vp8Descriptor {
  /** Bytes of the descriptor before the VP8 payload header. */
  length = 0;
  /** The packet starts partition 0 of a frame. */
  startsFrame = false;
  keyframe = false;
  pictureId = -1;
  /** Picture ids have 15 bits when true, else 7. */
  wide = false;
  tl0PicIdx = -1;
  temporalLayer = -1;
  layerSync = false;
  keyIdx = -1;
  /** Set for a keyframe's first packet; 0 when unknown. */
  width = 0;
  height = 0;
  /** Offsets in the descriptor of the fields that are present. */
  pictureIdAt = 0;
  tl0At = 0;
  tidAt = 0;

  parse(data: Uint8Array, offset: number, payloadLength: number): boolean {
    const end = offset + payloadLength;
    this.length = 0;
    this.startsFrame = this.keyframe = false;
    if (payloadLength < 1) return false;
    this.pictureId = this.tl0PicIdx = this.temporalLayer = this.keyIdx = -1;
    this.width = this.height = 0;
    this.wide = this.layerSync = false;
    const first = readUint8(data, offset);
    let at = offset + 1;
    if (first & 0x80) {
      if (at >= end) return false;
      const flags = readUint8(data, at++);
      if (flags & 0x80) {
        if (at >= end) return false;
        this.pictureIdAt = at - offset;
        this.wide = (readUint8(data, at) & 0x80) !== 0;
        if (this.wide && at + 2 > end) return false;
        this.pictureId = this.wide ? readUint16(data, at) & 0x7fff : readUint8(data, at);
        at += this.wide ? 2 : 1;
      }
      if (flags & 0x40) {
        if (at >= end) return false;
        this.tl0At = at - offset;
        this.tl0PicIdx = readUint8(data, at++);
      }
      if (flags & 0x30) {
        if (at >= end) return false;
        this.tidAt = at - offset;
        const byte = readUint8(data, at++);
        if (flags & 0x20) {
          this.temporalLayer = byte >> 6;
          this.layerSync = (byte & 0x20) !== 0;
        }
        if (flags & 0x10) this.keyIdx = byte & 0x1f;
      }
    }
    this.length = at - offset;
    this.startsFrame = (first & 0x10) !== 0 && (first & 0x0f) === 0;
    this.keyframe = this.startsFrame && at < end && (readUint8(data, at) & 1) === 0;
    if (this.keyframe && at + 10 <= end && readUint16(data, at + 3) === 0x9d01 && data[at + 5] === 0x2a) {
      this.width = readUint8(data, at + 6) | ((readUint8(data, at + 7) & 0x3f) << 8);
      this.height = readUint8(data, at + 8) | ((readUint8(data, at + 9) & 0x3f) << 8);
    }
    return true;
  }

  /** Copies the descriptor at `offset` into `out` with other ids; the length stays the same. */
  rewrite(data: Uint8Array, offset: number, out: Uint8Array, ids: Vp8Ids): number {
    for (let i = 0; i < this.length; i++) out[i] = readUint8(data, offset + i);
    if (this.pictureId >= 0) {
      if (this.wide) writeUint16(out, this.pictureIdAt, 0x8000 | (ids.pictureId & 0x7fff));
      else out[this.pictureIdAt] = ids.pictureId & 0x7f;
    }
    if (this.tl0PicIdx >= 0) out[this.tl0At] = ids.tl0PicIdx & 0xff;
    if (this.keyIdx >= 0) out[this.tidAt] = (readUint8(out, this.tidAt) & 0xe0) | (ids.keyIdx & 0x1f);
    return this.length;
  }
}

/** More frames than an encoder leaves out within the time in which a late packet still comes. */
const MAX_OMISSIONS = 32;

export interface Vp8Ids {
  pictureId: number;
  tl0PicIdx: number;
  keyIdx: number;
}

/** Keeps a subscriber's ids continuous across layer and source switches. An offset is valid from one switch to the next. */
export class Vp8Munger {
  readonly ids: Vp8Ids = { pictureId: 0, tl0PicIdx: 0, keyIdx: 0 };
  #pictureIdOffset = 0;
  #tl0Offset = 0;
  #keyIdxOffset = 0;
  /** The ids of the newest packet, once there is one. */
  #started = false;
  #lastPictureId = 0;
  #lastTl0PicIdx = 0;
  #lastKeyIdx = 0;
  /** The frames that were left out recently: where each began, and the offset of picture ids before it. */
  #omissions: { extended: number; pictureIdOffset: number }[] = [];

  /** The offsets that are added to the ids of the current source. */
  get offsets(): Vp8Ids {
    return { pictureId: this.#pictureIdOffset, tl0PicIdx: this.#tl0Offset, keyIdx: this.#keyIdxOffset };
  }

  /** Takes the first packet after a switch, which is then mapped like any other. */
  switchTo(descriptor: Vp8Descriptor): void {
    this.#omissions = [];
    if (!this.#started) return;
    this.#pictureIdOffset = this.#lastPictureId + 1 - descriptor.pictureId;
    this.#tl0Offset = this.#lastTl0PicIdx + 1 - descriptor.tl0PicIdx;
    this.#keyIdxOffset = this.#lastKeyIdx + 1 - descriptor.keyIdx;
  }

  /** Leaves out a frame that begins with this packet: a decoder would wait for a missing id. */
  omit(extended: number): void {
    this.#omissions.push({ extended, pictureIdOffset: this.#pictureIdOffset });
    if (this.#omissions.length > MAX_OMISSIONS) this.#omissions.shift();
    this.#pictureIdOffset -= 1;
  }

  #pictureIdOffsetAt(extended: number): number {
    return this.#omissions.find((omission) => omission.extended > extended)?.pictureIdOffset ?? this.#pictureIdOffset;
  }

  /** Returns the outgoing ids of a packet. Late packets do not advance the last ids. */
  map(descriptor: Vp8Ids & { wide: boolean }, late: boolean, extended = Number.POSITIVE_INFINITY): Vp8Ids {
    const { ids } = this;
    const offset = late ? this.#pictureIdOffsetAt(extended) : this.#pictureIdOffset;
    ids.pictureId = (descriptor.pictureId + offset) & (descriptor.wide ? 0x7fff : 0x7f);
    ids.tl0PicIdx = (descriptor.tl0PicIdx + this.#tl0Offset) & 0xff;
    ids.keyIdx = (descriptor.keyIdx + this.#keyIdxOffset) & 0x1f;
    if (!late) {
      this.#started = true;
      this.#lastPictureId = ids.pictureId;
      this.#lastTl0PicIdx = ids.tl0PicIdx;
      this.#lastKeyIdx = ids.keyIdx;
    }
    return ids;
  }
}
