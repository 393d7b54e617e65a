// The packets that the publisher of a trace sends: video, audio and reports, with losses, repetitions and packets out of order, as a random
// source decides.

import { writeSdes, writeSenderReport } from "../../src/sfu/wire/rtcp/rtcp-write.ts";
import type { NegotiatedCodec } from "../../src/sfu/wire/sdp/codecs.ts";
import { noExtensions } from "../../src/sfu/wire/sdp/extensions.ts";
import { SrtpSender } from "../../src/sfu/wire/srtp/srtp.ts";
import { rtpPacket, withRoom } from "./packets.ts";

export const EXTENSIONS = { ...noExtensions(), mid: 1, rid: 2, transportSequence: 5, audioLevel: 6, absSendTime: 4 };
const negotiated = (name: NegotiatedCodec["codec"], payloadType: number, clockRate: number): NegotiatedCodec => ({
  codec: name,
  payloadType,
  rtxPayloadType: name === "opus" ? null : payloadType + 1,
  clockRate,
  variant: "",
  profile: "",
  nack: true,
});
export const VIDEO = { VP8: negotiated("VP8", 96, 90_000), H264: negotiated("H264", 102, 90_000) };
export const AUDIO = negotiated("opus", 111, 48_000);
export const key = (n: number) => ({
  ...({ profile: n % 2 ? "AES_CM_128_HMAC_SHA1_80" : "AEAD_AES_128_GCM" } as const),
  key: new Uint8Array(16).fill(n),
  salt: new Uint8Array(n % 2 ? 14 : 12).fill(n),
});

type Stream = { ssrc: number; payloadType: number; rid: string | null; sequenceNumber: number; timestamp: number };

export class TracedPublisher {
  readonly #random: () => number;
  readonly #codec: keyof typeof VIDEO;
  readonly #outgoing = new SrtpSender(key(0));
  readonly #streams: Stream[];
  #held: Uint8Array[] = [];
  #number = 0;

  constructor(random: () => number, codec: keyof typeof VIDEO) {
    this.#random = random;
    this.#codec = codec;
    const video = VIDEO[codec].payloadType;
    this.#streams = [
      { ssrc: 11, payloadType: video, rid: "q", sequenceNumber: 65_500, timestamp: 5 },
      { ssrc: 12, payloadType: video, rid: "f", sequenceNumber: 30, timestamp: 0xffff_f000 },
      { ssrc: 13, payloadType: AUDIO.payloadType, rid: null, sequenceNumber: 9, timestamp: 1 },
    ];
  }

  #chance(oneIn: number): boolean {
    return Math.floor(this.#random() * oneIn) === 0;
  }

  #packet(stream: Stream, payload: Uint8Array, marker: boolean, padding = 0): Uint8Array {
    const number = this.#number++ & 0xffff;
    const extensions = [
      { id: 1, data: Buffer.from(stream.rid ? "0" : "1") },
      ...(stream.rid ? [{ id: 2, data: Buffer.from(stream.rid) }] : []),
      { id: 5, data: new Uint8Array([number >> 8, number & 0xff]) },
      ...(stream.rid ? [] : [{ id: 6, data: new Uint8Array([0x80 | (number % 100)]) }]),
    ];
    const { ssrc, payloadType, sequenceNumber, timestamp } = stream;
    const shape = { ssrc, payloadType, sequenceNumber, timestamp, marker, extensions, payload, padding };
    const plain = rtpPacket(shape);
    stream.sequenceNumber = (sequenceNumber + 1) & 0xffff;
    const headerLength = plain.length - payload.length - padding;
    const sealed = withRoom(plain);
    return sealed.slice(0, this.#outgoing.protectRtp(sealed, headerLength, plain.length));
  }

  #frame(stream: Stream): Uint8Array[] {
    if (!stream.rid) {
      stream.timestamp = (stream.timestamp + 960) >>> 0;
      return [this.#packet(stream, new Uint8Array(60).fill(this.#number), false)];
    }
    stream.timestamp = (stream.timestamp + 3_000) >>> 0;
    const count = 1 + Math.floor(this.#random() * 12);
    const isKey = this.#chance(12);
    return Array.from({ length: count }, (_, i) => {
      const payload = new Uint8Array(100 + (this.#number % 900)).fill(i);
      if (this.#codec === "H264") payload.set([0x7c, (i === 0 ? 0x80 : 0) | (isKey ? 7 : 1)]);
      else
        payload.set([i === 0 ? 0x90 : 0x80, 0xf0, 0x80 | (this.#number >> 8), this.#number & 0xff, this.#number, 0x25]);
      if (this.#codec === "VP8" && i === 0) payload.set([isKey ? 0x10 : 0x11, 0, 0, 0x9d, 0x01, 0x2a, 0, 2, 0, 1], 6);
      return this.#packet(stream, payload, i === count - 1, this.#chance(200) ? 7 : 0);
    });
  }

  /** A report on its own, or in a compound as browsers send it. */
  #senderReport({ ssrc, timestamp }: Stream, nowMs: number): Uint8Array {
    const out = new Uint8Array(200);
    const time = { ntpSeconds: Math.floor(nowMs / 1_000) + 2_208_988_800, ntpFraction: 7, rtpTimestamp: timestamp };
    let end = writeSenderReport(out, 0, { ssrc, ...time, packetCount: this.#number, octetCount: 1 });
    if (this.#chance(3)) end = writeSdes(out, end, ssrc, "ann");
    return out.slice(0, this.#outgoing.protectRtcp(out, end));
  }

  /** Each packet may be lost, late or repeated. */
  #arriving(packets: Uint8Array[]): Uint8Array[] {
    const arriving = packets.flatMap((packet) => {
      if (this.#chance(100)) return [];
      if (this.#chance(100)) {
        this.#held.push(packet);
        return [];
      }
      return this.#chance(100) ? [packet, packet] : [packet];
    });
    if (this.#chance(6)) arriving.push(...this.#held.splice(0));
    if (this.#chance(40)) arriving.reverse();
    if (this.#chance(50)) arriving.push(new Uint8Array(40).fill(0x80));
    return arriving;
  }

  /** The packets that arrive together: bursts of several streams, one after the other, and reports in between. */
  nextPackets(nowMs: number): Uint8Array[] {
    const frames = this.#streams.map((stream) => {
      const frame = this.#frame(stream);
      return this.#chance(6) ? [...frame, this.#senderReport(stream, nowMs)] : frame;
    });
    return this.#arriving(frames.flat());
  }

  /** Now and then a layer continues as another stream. */
  restart(): void {
    const stream = this.#streams[1] as Stream;
    if (this.#chance(40)) Object.assign(stream, { ssrc: stream.ssrc + 10, sequenceNumber: 100, timestamp: 77 });
  }
}
