import { Application, createEncoder, type OpusEncoderHandle } from "libopus-wasm";
import { type AudioFormat, type AudioSource, frames } from "./audio-source.ts";
import type { EncryptFrame } from "./track-cipher.ts";

const OPUS_RATES = [8_000, 12_000, 16_000, 24_000, 48_000];
const FRAME_MS = 20;
/** After a longer stall of the machine, sending continues from the current time instead of catching up in a burst. */
const MAX_BEHIND_MS = 2_000;

type Packet = { payload: Uint8Array; level: number };

/** Encodes audio and sends a packet every 20 ms, until the source ends or it is stopped. */
export class AudioSender {
  /** Resolves when the last packet has been sent, or the track was stopped. */
  readonly done: Promise<void>;
  muted = false;
  /** Packets that were sent more than one frame too late. */
  late = 0;
  #stopped = false;

  constructor(source: AudioSource, format: AudioFormat, encrypt: EncryptFrame, send: (packet: Packet) => void) {
    this.done = this.#run(source, format, async ({ payload, level }) => {
      const encrypted = await encrypt(payload, true);
      if (encrypted) send({ payload: encrypted, level });
    });
  }

  stop(): void {
    this.#stopped = true;
  }

  async #run(source: AudioSource, format: AudioFormat, send: (packet: Packet) => Promise<void>): Promise<void> {
    const rate = OPUS_RATES.includes(format.sampleRate) ? format.sampleRate : 48_000;
    const encoder = await createEncoder({
      sampleRate: rate as 48_000,
      channels: format.channels,
      application: Application.Audio,
      bitrate: 32_000 * format.channels,
      fec: true,
      packetLossPercent: 5,
    });
    try {
      await this.#sendFrames(source, format, rate, encoder, send);
    } finally {
      encoder.free();
    }
  }

  async #sendFrames(
    source: AudioSource,
    format: AudioFormat,
    rate: number,
    encoder: OpusEncoderHandle,
    send: (packet: Packet) => Promise<void>,
  ): Promise<void> {
    let startedAt = performance.now();
    let count = 0;
    for await (const samples of frames(source, format, rate)) {
      const early = startedAt + count * FRAME_MS - performance.now();
      if (early > 0) await new Promise((resolve) => setTimeout(resolve, early));
      else if (early < -FRAME_MS) this.late++;
      if (early < -MAX_BEHIND_MS) {
        startedAt = performance.now();
        count = 0;
      }
      if (this.#stopped) return;
      count++;
      const heard = this.muted ? new Int16Array(samples.length) : samples;
      const payload = encoder.encode(heard, { frameSize: samples.length / format.channels });
      await send({ payload, level: levelOf(heard) });
    }
  }
}

/** The audio level of RFC 6464: 0 is loudest, 127 is silence. */
function levelOf(samples: Int16Array): number {
  let sum = 0;
  for (const sample of samples) sum += sample * sample;
  const rms = Math.sqrt(sum / Math.max(1, samples.length)) / 32_768;
  return rms === 0 ? 127 : Math.min(127, Math.round(-20 * Math.log10(rms)));
}
