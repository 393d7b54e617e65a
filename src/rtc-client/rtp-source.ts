/** Writes RTP packets of one published stream, with the header extensions by which the server identifies them. */
import { writeUint16, writeUint32 } from "../sfu/wire/rtp/bytes.ts";
import type { RtcPeer } from "./peer.ts";
import { EXTENSION_IDS } from "./sdp.ts";

type SourceOptions = {
  ssrc: number;
  payloadType: number;
  mid: string;
  rid?: string;
  firstSequence?: number;
  /** The level in −dBov, for audio. */
  audioLevel?: number;
  /** Transport-wide sequence numbers that several sources on one connection share. */
  numbers?: { next: number };
};

const HEADER_BYTES = 12;

export class RtpSource {
  readonly options: SourceOptions;
  sequenceNumber: number;
  timestamp = 1_000;
  #pictureId = 0;
  readonly #numbers: { next: number };

  constructor(options: SourceOptions) {
    this.options = options;
    this.sequenceNumber = options.firstSequence ?? 1_000;
    this.#numbers = options.numbers ?? { next: 0 };
  }

  /** Sends one synthetic VP8 frame of `packets` packets. */
  sendFrame(peer: RtcPeer, keyframe: boolean, packets = 1, payloadBytes = 200): void {
    this.timestamp = (this.timestamp + 3_000) >>> 0;
    this.#pictureId = (this.#pictureId + 1) & 0x7fff;
    for (let i = 0; i < packets; i++) {
      const payload = new Uint8Array(payloadBytes);
      payload.set([i === 0 ? 0x90 : 0x80, 0x80, 0x80 | (this.#pictureId >> 8), this.#pictureId & 0xff]);
      if (i === 0) payload.set([keyframe ? 0x10 : 0x11, 0, 0, 0x9d, 0x01, 0x2a, 0x80, 0x02, 0x68, 0x01], 4);
      this.send(peer, payload, i === packets - 1);
    }
  }

  sendAudio(peer: RtcPeer, payload = new Uint8Array(60)): void {
    this.timestamp = (this.timestamp + 960) >>> 0;
    this.send(peer, payload, false);
  }

  send(peer: RtcPeer, payload: Uint8Array, marker: boolean): void {
    const { packet, headerLength, length } = this.build(payload, marker);
    peer.sendRtp(packet, headerLength, length);
  }

  /** The next packet, unencrypted, with room for the authentication tag. */
  build(payload: Uint8Array, marker: boolean): { packet: Uint8Array; headerLength: number; length: number } {
    const { ssrc, payloadType, mid, rid, audioLevel } = this.options;
    const packet = new Uint8Array(HEADER_BYTES + 64 + payload.length + 20);
    packet[0] = 0x90;
    packet[1] = (marker ? 0x80 : 0) | payloadType;
    writeUint16(packet, 2, this.sequenceNumber);
    this.sequenceNumber = (this.sequenceNumber + 1) & 0xffff;
    writeUint32(packet, 4, this.timestamp);
    writeUint32(packet, 8, ssrc);
    writeUint16(packet, 12, 0xbede);
    let at = HEADER_BYTES + 4;
    const element = (id: number, value: Uint8Array) => {
      packet[at++] = (id << 4) | (value.length - 1);
      packet.set(value, at);
      at += value.length;
    };
    element(EXTENSION_IDS.mid, new TextEncoder().encode(mid));
    if (rid) element(EXTENSION_IDS.rid, new TextEncoder().encode(rid));
    if (audioLevel !== undefined) element(EXTENSION_IDS.audioLevel, new Uint8Array([0x80 | audioLevel]));
    const number = this.#numbers.next++ & 0xffff;
    element(EXTENSION_IDS.transportSequence, new Uint8Array([number >> 8, number & 0xff]));
    while ((at - HEADER_BYTES) & 3) packet[at++] = 0;
    writeUint16(packet, 14, (at - HEADER_BYTES - 4) / 4);
    packet.set(payload, at);
    return { packet, headerLength: at, length: at + payload.length };
  }
}
