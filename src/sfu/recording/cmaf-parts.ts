// One track as parts of a live stream (CMAF, ISO/IEC 23000-19): parts of half a second, so that a player need not wait for a
// whole segment, and segments that each begin with a keyframe.

import type { RecordedPart } from "../../protocol/media/recording.ts";
import { concatSpans, type Span } from "../wire/frames/frame.ts";
import type { TrackFormat } from "./media-file.ts";
import { initialization } from "./mp4-boxes.ts";
import { FRAGMENT_BYTES, fragment, type Sample } from "./mp4-file.ts";

/** A part is at most one frame longer, which is still within the half second that players expect. */
const PART_MS = 450;
const SEGMENT_MS = 1_900;
/** Players start with the first complete segment, so it is short. */
const FIRST_SEGMENT_MS = 900;
/** After a longer gap a new segment begins, because a frame would otherwise be shown for all that time. */
const GAP_MS = 1_000;

export type Piece = Pick<
  RecordedPart,
  "head" | "data" | "atMs" | "durationMs" | "independent" | "beginsSegment" | "endsSegment"
>;

export class CmafParts {
  /** The codecs string of RFC 6381. */
  readonly codecs: string;
  readonly #timescale: number;
  readonly #emit: (piece: Piece) => void;
  #head: Uint8Array | null;
  #sequence = 0;
  #samples: Sample[] = [];
  #sampleBytes = 0;
  #endTime = 0;
  #segmentTime = 0;
  #begins = true;
  #segmentMs = FIRST_SEGMENT_MS;

  constructor(format: TrackFormat, emit: (piece: Piece) => void) {
    this.codecs = codecsOf(format);
    this.#timescale = format.codec === "opus" ? 48_000 : 90_000;
    this.#head = initialization(format, this.#timescale, "avc1");
    this.#emit = emit;
  }

  /** Is true when the current segment is long enough to end: then a keyframe has to be requested. */
  isDue(atMs: number): boolean {
    return this.#begins ? false : atMs * (this.#timescale / 1_000) - this.#segmentTime >= this.#ticks(this.#segmentMs);
  }

  /** `atMs` counts from the start of the recording, on the clock that all its tracks share. */
  add(frame: readonly Span[], atMs: number, durationMs: number, keyframe: boolean): void {
    const last = this.#samples.at(-1);
    const time = Math.max(Math.round((atMs * this.#timescale) / 1_000), last ? last.time + 1 : this.#endTime);
    const first = this.#samples[0];
    if (first && last) {
      const gap = time - last.time >= this.#ticks(GAP_MS);
      if (!gap) last.duration = time - last.time;
      const ends = keyframe && (gap || time - this.#segmentTime >= this.#ticks(this.#segmentMs));
      const isLong = time - first.time >= this.#ticks(PART_MS) || this.#sampleBytes >= FRAGMENT_BYTES;
      if (ends || gap || isLong) this.#take(ends);
    }
    const data = concatSpans(frame);
    this.#samples.push({ data, time, duration: Math.max(1, this.#ticks(durationMs)), keyframe });
    this.#sampleBytes += data.length;
    if (this.#begins && this.#samples.length === 1) this.#segmentTime = time;
  }

  end(): void {
    if (this.#samples.length > 0) this.#take(true);
  }

  #ticks(ms: number): number {
    return Math.round((ms * this.#timescale) / 1_000);
  }

  #take(endsSegment: boolean): void {
    const samples = this.#samples;
    this.#samples = [];
    this.#sampleBytes = 0;
    const first = samples[0] as Sample;
    const end = samples.at(-1) as Sample;
    this.#endTime = end.time + end.duration;
    const toMs = 1_000 / this.#timescale;
    this.#emit({
      head: this.#head ? base64(this.#head) : null,
      data: base64(fragment(++this.#sequence, samples)),
      atMs: first.time * toMs,
      durationMs: (this.#endTime - first.time) * toMs,
      independent: first.keyframe,
      beginsSegment: this.#begins,
      endsSegment,
    });
    this.#head = null;
    this.#begins = endsSegment;
    if (endsSegment) this.#segmentMs = SEGMENT_MS;
  }
}

/** Is true for codecs that players of live streams can decode. */
export function isStreamable({ codec }: TrackFormat): boolean {
  return codec === "h264" || codec === "av1" || codec === "opus";
}

function codecsOf(format: TrackFormat): string {
  const hex = (value = 0) => value.toString(16).padStart(2, "0");
  switch (format.codec) {
    case "h264":
      return `avc1.${hex(format.sps[1])}${hex(format.sps[2])}${hex(format.sps[3])}`;
    case "av1": {
      const levels = format.configuration?.[1] ?? 0;
      return `av01.${levels >> 5}.${String(levels & 0x1f).padStart(2, "0")}M.08`;
    }
    case "opus":
      return "opus";
    case "vp8":
    case "vp9":
      return format.codec;
  }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString("base64");
}
