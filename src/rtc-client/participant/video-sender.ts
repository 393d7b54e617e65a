import { annexB, nalUnits } from "./nal-units.ts";
import type { EncryptFrame } from "./track-cipher.ts";
import type { VideoCodec, VideoSource } from "./video-source.ts";

const MAX_PAYLOAD_BYTES = 1_100;
const CLOCK_HZ = 90_000;

type Packet = { payload: Uint8Array; marker: boolean; timestamp: number };

/** Sends the packets of each frame at its time, until the source ends or it is stopped. */
export class VideoSender {
  readonly done: Promise<void>;
  muted = false;
  #stopped = false;
  #pictureId = 0;

  constructor(source: VideoSource, codec: VideoCodec, encrypt: EncryptFrame, send: (packet: Packet) => void) {
    this.done = this.#run(source, codec, encrypt, send);
  }

  stop(): void {
    this.#stopped = true;
  }

  async #run(
    source: VideoSource,
    codec: VideoCodec,
    encrypt: EncryptFrame,
    send: (packet: Packet) => void,
  ): Promise<void> {
    const startedAt = performance.now();
    for await (const frame of source) {
      const early = startedAt + frame.timestampMs - performance.now();
      if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
      if (this.#stopped) return;
      if (this.muted) continue;
      const timestamp = Math.round((frame.timestampMs * CLOCK_HZ) / 1000) >>> 0;
      const data = await encrypt(codec === "H264" ? annexB(nalUnits(frame.data)) : frame.data, frame.keyframe);
      if (!data) continue;
      const payloads = codec === "VP8" ? this.#vp8(data) : h264(data);
      for (const [i, payload] of payloads.entries()) send({ payload, marker: i === payloads.length - 1, timestamp });
    }
  }

  /** RFC 7741 with a picture id, which layer switches need. */
  #vp8(data: Uint8Array): Uint8Array[] {
    this.#pictureId = (this.#pictureId + 1) & 0x7fff;
    const payloads: Uint8Array[] = [];
    for (let at = 0; at < data.length; at += MAX_PAYLOAD_BYTES) {
      const part = data.subarray(at, at + MAX_PAYLOAD_BYTES);
      const payload = new Uint8Array(4 + part.length);
      payload.set([at === 0 ? 0x90 : 0x80, 0x80, 0x80 | (this.#pictureId >> 8), this.#pictureId & 0xff]);
      payload.set(part, 4);
      payloads.push(payload);
    }
    return payloads;
  }
}

/** RFC 6184: one packet per NAL unit of an Annex B frame, and fragments (FU-A) of large ones. */
function h264(frame: Uint8Array): Uint8Array[] {
  return nalUnits(frame).flatMap((unit) => {
    if (unit.length <= MAX_PAYLOAD_BYTES) return [unit];
    const head = unit[0] ?? 0;
    const payloads: Uint8Array[] = [];
    for (let at = 1; at < unit.length; at += MAX_PAYLOAD_BYTES) {
      const part = unit.subarray(at, at + MAX_PAYLOAD_BYTES);
      const edge = (at === 1 ? 0x80 : 0) | (at + MAX_PAYLOAD_BYTES >= unit.length ? 0x40 : 0);
      const payload = new Uint8Array(2 + part.length);
      payload.set([(head & 0xe0) | 28, edge | (head & 0x1f)]);
      payload.set(part, 2);
      payloads.push(payload);
    }
    return payloads;
  });
}
