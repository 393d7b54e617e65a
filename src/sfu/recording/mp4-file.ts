// One track as a fragmented MP4 file: a header and independent fragments, so that the file plays at every moment. Live streams
// consist of the same fragments.

import { concat, concatSpans, type Span, spanOf } from "../wire/frames/frame.ts";
import type { MediaFile, Patch, TrackFormat } from "./media-file.ts";
import { box, fullBox, initialization, u32, u64 } from "./mp4-boxes.ts";

/** Bounds what a crash loses, and the memory. */
const FRAGMENT_MS = 1_000;
export const FRAGMENT_BYTES = 4 * 1024 * 1024;
const SYNC_SAMPLE = 0x0200_0000;
const OTHER_SAMPLE = 0x0101_0000;

export type Sample = { data: Uint8Array; time: number; duration: number; keyframe: boolean };

export class Mp4File implements MediaFile {
  readonly mimeType: string;
  readonly #timescale: number;
  readonly #head: Uint8Array;
  readonly #durationAt: number;
  readonly #index: { time: number; position: number }[] = [];
  #position: number;
  #sequence = 0;
  #samples: Sample[] = [];
  #sampleBytes = 0;
  #endTime = 0;

  constructor(format: TrackFormat) {
    const isAudio = format.codec === "opus";
    this.mimeType = isAudio ? "audio/mp4" : "video/mp4";
    this.#timescale = isAudio ? 48_000 : 90_000;
    this.#head = initialization(format, this.#timescale);
    this.#durationAt = indexOf(this.#head, "mehd") + 8;
    this.#position = this.#head.length;
  }

  begin(): Uint8Array {
    return this.#head;
  }

  add(frame: readonly Span[], timeMs: number, durationMs: number, keyframe: boolean): Span[] {
    const last = this.#samples.at(-1);
    const time = Math.max(Math.round((timeMs * this.#timescale) / 1_000), last ? last.time + 1 : this.#endTime);
    // The duration of a frame is known when the next one comes.
    if (last) last.duration = time - last.time;
    const first = this.#samples[0];
    const isLong = first !== undefined && time - first.time >= (FRAGMENT_MS * this.#timescale) / 1_000;
    // The size limit ends fragments of a sender whose clock stands still.
    const due = first !== undefined && (keyframe || isLong || this.#sampleBytes >= FRAGMENT_BYTES);
    const out = due ? [spanOf(this.#takeFragment())] : [];
    const duration = Math.max(1, Math.round((durationMs * this.#timescale) / 1_000));
    const data = concatSpans(frame);
    this.#samples.push({ data, time, duration, keyframe });
    this.#sampleBytes += data.length;
    return out;
  }

  finish(): { tail: Uint8Array; patches: Patch[] } {
    const last = this.#samples.length > 0 ? this.#takeFragment() : new Uint8Array(0);
    const durationMs = Math.min(0xffff_ffff, Math.round((this.#endTime * 1_000) / this.#timescale));
    return {
      tail: concat([last, this.#randomAccess()]),
      patches: [{ position: this.#durationAt, bytes: u32(durationMs) }],
    };
  }

  #takeFragment(): Uint8Array {
    const samples = this.#samples;
    this.#samples = [];
    this.#sampleBytes = 0;
    const first = samples[0] as Sample;
    const end = samples.at(-1) as Sample;
    this.#endTime = end.time + end.duration;
    if (first.keyframe) this.#index.push({ time: first.time, position: this.#position });
    const out = fragment(++this.#sequence, samples);
    this.#position += out.length;
    return out;
  }

  /** The index of keyframes, which players expect at the end of the file. */
  #randomAccess(): Uint8Array {
    const entries = this.#index.map(({ time, position }) => concat([u64(time), u64(position), Uint8Array.of(1, 1, 1)]));
    const tfra = fullBox("tfra", 1, 0, u32(1, 0, this.#index.length), ...entries);
    return box("mfra", tfra, fullBox("mfro", 0, 0, u32(8 + tfra.length + 16)));
  }
}

/** `moof` and `mdat` of consecutive samples without a gap. */
export function fragment(sequence: number, samples: readonly Sample[]): Uint8Array {
  const rows = samples.map(({ data, duration, keyframe }) =>
    u32(duration, data.length, keyframe ? SYNC_SAMPLE : OTHER_SAMPLE),
  );
  const mfhd = fullBox("mfhd", 0, 0, u32(sequence));
  const tfhd = fullBox("tfhd", 0, 0x020000, u32(1));
  const tfdt = fullBox("tfdt", 1, 0, u64((samples[0] as Sample).time));
  const trunOf = (dataOffset: number) => fullBox("trun", 0, 0x000701, u32(samples.length, dataOffset), ...rows);
  const lengthBeforeData = 8 + mfhd.length + 8 + tfhd.length + tfdt.length + trunOf(0).length + 8;
  const moof = box("moof", mfhd, box("traf", tfhd, tfdt, trunOf(lengthBeforeData)));
  return concat([moof, box("mdat", ...samples.map(({ data }) => data))]);
}

function indexOf(bytes: Uint8Array, type: string): number {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).indexOf(type, 0, "latin1");
}
