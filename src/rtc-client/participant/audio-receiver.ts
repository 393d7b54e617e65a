import { createDecoder, type OpusDecoderHandle } from "libopus-wasm";
import type { Pcm } from "./participant-events.ts";

const SAMPLE_RATE = 48_000;
/** The number of packets that wait for a missing one: 60 ms of audio. */
const PATIENCE_PACKETS = 3;
/** A longer gap is silence (DTX) and not loss. */
const MAX_CONCEALED = 5;

/** Decodes Opus packets, which may arrive out of order, to samples, and conceals lost packets. */
export class AudioReceiver {
  readonly #waiting = new Map<number, { payload: Uint8Array; timestamp: number }>();
  readonly #channels: 1 | 2;
  readonly #output: (pcm: Pcm, timestamp: number) => void;
  #decoder: OpusDecoderHandle | null = null;
  #next: number | null = null;
  #closed = false;
  /** The RTP timestamp after the last decoded sample. */
  #timestamp = 0;

  constructor(channels: 1 | 2, output: (pcm: Pcm, timestamp: number) => void) {
    this.#channels = channels;
    this.#output = output;
    void createDecoder({ sampleRate: SAMPLE_RATE, channels }).then((decoder) => {
      if (this.#closed) return decoder.free();
      this.#decoder = decoder;
      this.#advance();
    });
  }

  /** `sequenceNumber` has 16 bits. The payload is stored without a copy. */
  add(sequenceNumber: number, payload: Uint8Array, timestamp = 0): void {
    const number = this.#unwrap(sequenceNumber);
    this.#next ??= number;
    if (number < this.#next || payload.length === 0) return;
    this.#waiting.set(number, { payload, timestamp });
    this.#advance();
  }

  close(): void {
    this.#closed = true;
    this.#decoder?.free();
    this.#decoder = null;
  }

  #unwrap(sequenceNumber: number): number {
    if (this.#next === null) return sequenceNumber;
    const diff = (sequenceNumber - this.#next) & 0xffff;
    return this.#next + (diff < 0x8000 ? diff : diff - 0x10000);
  }

  #advance(): void {
    const decoder = this.#decoder;
    while (decoder && this.#next !== null && this.#waiting.size > 0) {
      const packet = this.#waiting.get(this.#next);
      if (packet) {
        this.#waiting.delete(this.#next);
        this.#next++;
        this.#timestamp = packet.timestamp;
        this.#decode(decoder, packet.payload);
      } else if (this.#waiting.size > PATIENCE_PACKETS) this.#conceal(decoder, this.#next);
      else return;
    }
  }

  /** The packet after a lost one contains a low-quality copy of it (FEC). */
  #conceal(decoder: OpusDecoderHandle, from: number): void {
    const found = Math.min(...this.#waiting.keys());
    const after = this.#waiting.get(found)?.payload ?? null;
    for (let lost = Math.max(from, found - MAX_CONCEALED); lost < found; lost++) {
      const repaired = lost === found - 1 && after !== null;
      this.#emit(decoder.decode(repaired ? after : null, { decodeFec: repaired, frameSize: 960 }));
    }
    this.#next = found;
  }

  #decode(decoder: OpusDecoderHandle, payload: Uint8Array): void {
    try {
      this.#emit(decoder.decode(payload));
    } catch {
      // A packet that is not Opus counts as lost.
    }
  }

  #emit(samples: Int16Array): void {
    if (samples.length === 0) return;
    this.#output({ samples, sampleRate: SAMPLE_RATE, channels: this.#channels }, this.#timestamp);
    this.#timestamp = (this.#timestamp + samples.length / this.#channels) >>> 0;
  }
}
