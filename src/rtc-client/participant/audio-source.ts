/** Audio to publish: samples, a WAV file, or any other file that an installed ffmpeg decodes. */
import { access, readFile } from "node:fs/promises";
import { runFfmpeg } from "./ffmpeg.ts";

export type AudioFormat = { sampleRate: number; channels: 1 | 2 };
/** 16-bit samples, interleaved for two channels, in chunks of any length. */
export type AudioSource = AsyncIterable<Int16Array> | Iterable<Int16Array>;

const FRAME_MS = 20;

export async function openAudio(
  source: AudioSource | string,
  options: Partial<AudioFormat>,
): Promise<{ source: AudioSource; format: AudioFormat }> {
  if (typeof source !== "string") {
    return { source, format: { sampleRate: options.sampleRate ?? 48_000, channels: options.channels ?? 1 } };
  }
  const bytes = /\.wav$/i.test(source) ? await readFile(source) : await decode(source);
  const { samples, ...format } = readWav(bytes, source);
  return { source: [samples], format };
}

async function decode(path: string): Promise<Uint8Array> {
  // A wrong file name is reported as such, and not by ffmpeg.
  await access(path);
  return runFfmpeg(["-i", path, "-vn", "-ar", "48000", "-ac", "2", "-c:a", "pcm_s16le", "-f", "wav", "pipe:1"], path);
}

/** Reads 16-bit PCM, the default of most tools. */
export function readWav(bytes: Uint8Array, name = "the file"): AudioFormat & { samples: Int16Array } {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const tag = (at: number) => String.fromCharCode(...bytes.subarray(at, at + 4));
  if (bytes.length < 12 || tag(0) !== "RIFF" || tag(8) !== "WAVE") throw new TypeError(`${name} is not a WAV file`);
  let format: AudioFormat | null = null;
  for (let at = 12; at + 8 <= bytes.length; ) {
    const size = view.getUint32(at + 4, true);
    const start = at + 8;
    if (tag(at) === "fmt ") {
      const [encoding, channels, bits] = [start, start + 2, start + 14].map((where) => view.getUint16(where, true));
      if ((encoding !== 1 && encoding !== 0xfffe) || bits !== 16 || (channels !== 1 && channels !== 2)) {
        throw new TypeError(`${name}: only 16-bit PCM with one or two channels can be published`);
      }
      format = { sampleRate: view.getUint32(start + 4, true), channels };
    } else if (tag(at) === "data") {
      if (!format) break;
      // A recorder that could not write the length leaves 0 or the maximum in the header.
      const end = Math.min(bytes.length, start + (size === 0 || size === 0xffffffff ? bytes.length : size));
      return { ...format, samples: new Int16Array(bytes.slice(start, end - ((end - start) % 2)).buffer) };
    }
    at = start + size + (size & 1);
  }
  throw new TypeError(`${name} holds no samples`);
}

/** Frames of 20 ms at a rate that Opus supports; the last one is padded with silence. */
export async function* frames(
  source: AudioSource,
  { sampleRate, channels }: AudioFormat,
  rate: number,
): AsyncGenerator<Int16Array, void, void> {
  const perFrame = (rate / 1000) * FRAME_MS * channels;
  let pending = new Int16Array(0);
  const resampler = sampleRate === rate ? null : new Resampler(sampleRate, rate, channels);
  for await (const chunk of source) {
    const samples = resampler ? resampler.push(chunk) : chunk;
    const joined = new Int16Array(pending.length + samples.length);
    joined.set(pending);
    joined.set(samples, pending.length);
    let at = 0;
    for (; at + perFrame <= joined.length; at += perFrame) yield joined.subarray(at, at + perFrame);
    pending = joined.slice(at);
  }
  if (pending.length === 0) return;
  const last = new Int16Array(perFrame);
  last.set(pending);
  yield last;
}

/** Resamples by linear interpolation, whose error is far below that of a voice codec. */
class Resampler {
  readonly #step: number;
  readonly #channels: number;
  #position = 0;
  #last: Int16Array;

  constructor(from: number, to: number, channels: number) {
    this.#step = from / to;
    this.#channels = channels;
    this.#last = new Int16Array(channels);
  }

  push(chunk: Int16Array): Int16Array {
    const channels = this.#channels;
    const count = Math.floor(chunk.length / channels);
    // Index −1 is the last sample of the previous chunk.
    const at = (index: number, channel: number) =>
      index < 0 ? (this.#last[channel] ?? 0) : (chunk[index * channels + channel] ?? 0);
    const out: number[] = [];
    let position = this.#position;
    for (; position <= count - 1; position += this.#step) {
      const index = Math.floor(position);
      const part = position - index;
      for (let channel = 0; channel < channels; channel++) {
        out.push(Math.round(at(index, channel) * (1 - part) + at(index + (part > 0 ? 1 : 0), channel) * part));
      }
    }
    this.#position = position - count;
    if (count > 0) this.#last = chunk.slice((count - 1) * channels, count * channels);
    return Int16Array.from(out);
  }
}

/** A tone for tests, with a length of `seconds` or endless. */
export function* tone({
  hz = 440,
  seconds = Number.POSITIVE_INFINITY,
  volume = 0.5,
} = {}): Generator<Int16Array, void, void> {
  const rate = 48_000;
  const size = (rate / 1000) * FRAME_MS;
  for (let start = 0; start < seconds * rate; start += size) {
    yield Int16Array.from({ length: size }, (_, i) =>
      Math.round(Math.sin((2 * Math.PI * hz * (start + i)) / rate) * volume * 32_767),
    );
  }
}
