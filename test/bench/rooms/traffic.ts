/** The media that each participant of a small room sends: audio and three layers of a video, scaled down equally for all servers. */
import type { RtcPeer } from "../../../src/rtc-client/peer.ts";
import { RtpSource } from "../../../src/rtc-client/rtp-source.ts";

export const AUDIO = { packetBytes: 160, perSecond: 25 };
export const VIDEO = {
  framesPerSecond: 10,
  /** From the smallest to the largest; viewers want the last. */
  layers: [
    { rid: "q", packets: 1, packetBytes: 400, width: 320, height: 180 },
    { rid: "h", packets: 2, packetBytes: 900, width: 640, height: 360 },
    { rid: "f", packets: 4, packetBytes: 1_100, width: 1_280, height: 720 },
  ],
} as const;
export const LARGEST = VIDEO.layers.length;
export const PACKETS_OF_LARGEST = VIDEO.layers[2].packets;
const HEADER_BYTES = 40;
const KEYFRAME_EVERY = 50;
/** The offset of the sending time and the layer (0 is audio) in a payload, after all bytes that a server reads. */
const STAMP_AT = 100;
const LAYER_AT = STAMP_AT + 8;

/** The media of one participant. */
export class Traffic {
  readonly #audio: RtpSource;
  readonly #layers: RtpSource[];
  #frames = 0;
  #keyframeWanted = true;

  constructor(firstSsrc: number) {
    // Numbers of transport-cc are those of the connection, not of a stream.
    const numbers = { next: 0 };
    this.#audio = new RtpSource({ ssrc: firstSsrc, payloadType: 111, mid: "0", audioLevel: 30, numbers });
    this.#layers = VIDEO.layers.map(
      ({ rid }, i) => new RtpSource({ ssrc: firstSsrc + 1 + i, payloadType: 96, mid: "1", rid, numbers }),
    );
  }

  wantKeyframe(): void {
    this.#keyframeWanted = true;
  }

  sendAudio(peer: RtcPeer): void {
    const payload = new Uint8Array(AUDIO.packetBytes - HEADER_BYTES);
    this.#audio.timestamp = (this.#audio.timestamp + 48_000 / AUDIO.perSecond) >>> 0;
    this.#audio.send(peer, stamped(payload, 0), false);
  }

  /** All layers of the next frame at once. */
  sendFrame(peer: RtcPeer): void {
    const isKey = this.#keyframeWanted || this.#frames % KEYFRAME_EVERY === 0;
    this.#keyframeWanted = false;
    this.#frames++;
    for (const [index, source] of this.#layers.entries()) {
      const layer = VIDEO.layers[index];
      if (!layer) continue;
      source.timestamp = (source.timestamp + 90_000 / VIDEO.framesPerSecond) >>> 0;
      for (let n = 0; n < layer.packets; n++) {
        const payload = new Uint8Array(layer.packetBytes - HEADER_BYTES);
        payload.set([n === 0 ? 0x90 : 0x80, 0x80, 0x80 | ((this.#frames >> 8) & 0x7f), this.#frames & 0xff]);
        const { width, height } = layer;
        const start = [isKey ? 0x10 : 0x11, 0, 0, 0x9d, 0x01, 0x2a];
        if (n === 0) payload.set([...start, width & 0xff, width >> 8, height & 0xff, height >> 8], 4);
        source.send(peer, stamped(payload, index + 1), n === layer.packets - 1);
      }
    }
  }
}

function stamped(payload: Uint8Array, layer: number): Uint8Array {
  new DataView(payload.buffer).setFloat64(STAMP_AT, performance.now());
  payload[LAYER_AT] = layer;
  return payload;
}

/** Null for packets that are none of ours, such as padding. */
export function readStamp(data: Uint8Array, offset: number, length: number): { sentAt: number; layer: number } | null {
  if (length <= LAYER_AT) return null;
  const sentAt = new DataView(data.buffer, data.byteOffset + offset + STAMP_AT, 8).getFloat64(0);
  return sentAt > 0 ? { sentAt, layer: data[offset + LAYER_AT] ?? 0 } : null;
}
