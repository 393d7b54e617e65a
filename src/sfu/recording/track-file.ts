// One file of a track while it is written: from its first frame until the track ends or changes its codec.

import type { RecordedFeed, RecordedFile, RecordedPart } from "../../protocol/media/recording.ts";
import type { TrackKind, TrackSource } from "../../protocol/room-records.ts";
import { concatSpans, type EncodedFrame, spanOf } from "../wire/frames/frame.ts";
import { opusDurationMs } from "../wire/frames/opus-frames.ts";
import { CmafParts, isStreamable } from "./cmaf-parts.ts";
import { FileSink } from "./file-sink.ts";
import type { MediaFile, TrackFormat } from "./media-file.ts";
import { Mp4File } from "./mp4-file.ts";
import { WebmFile } from "./webm-file.ts";

export type TrackFileHost = {
  directory: string;
  startedAtMs: number;
  newId(): string;
  fileStarted(file: RecordedFile): void;
  fileEnded(file: RecordedFile): void;
  failed(error: Error): void;
  /** Present when a live stream is made of the recording. */
  part?(part: RecordedPart): void;
  notStreamable?(file: RecordedFile): void;
  /** Takes tracks that have to be encoded again, instead of `notStreamable`. */
  feed?(feed: RecordedFeed): void;
};

type RecordedTrack = { identity: string; trackId: string; kind: TrackKind; source: TrackSource };

/** The duration of a frame until the next one is known. */
const FRAME_MS = 33;

export class TrackFile {
  readonly record: RecordedFile;
  readonly parts: CmafParts | null;
  readonly #host: TrackFileHost;
  readonly #file: MediaFile;
  readonly #sink: FileSink;
  /** Passes each frame to an encoder, with the time since the start of the recording. */
  readonly #feed: ((frame: EncodedFrame, atMs: number) => void) | null;
  /** The server time of the first frame. */
  #startMs: number;
  #lastMs: number;
  /** The newest frame is held until the next, because a better layer may replace it. */
  #held: { frame: EncodedFrame; atMs: number } | null = null;

  constructor(track: RecordedTrack, format: TrackFormat, atMs: number, host: TrackFileHost) {
    this.#host = host;
    this.#file = format.codec === "h264" ? new Mp4File(format) : new WebmFile(format);
    this.#startMs = this.#lastMs = atMs;
    const fileId = host.newId();
    const { identity, trackId, kind, source } = track;
    this.record = {
      fileId,
      fileName: `${fileId}.${format.codec === "h264" ? "mp4" : "webm"}`,
      identity,
      trackId,
      kind,
      source,
      codec: format.codec,
      mimeType: this.#file.mimeType,
      offsetMs: Math.round(atMs - host.startedAtMs),
      durationMs: 0,
      bytes: 0,
      width: format.codec === "opus" ? null : format.width,
      height: format.codec === "opus" ? null : format.height,
    };
    const path = `${host.directory}/${this.record.fileName}`;
    this.#sink = new FileSink(path, host.failed, format.codec === "h264" ? 0 : undefined);
    this.#sink.append([spanOf(this.#file.begin())]);
    host.fileStarted(this.record);
    this.parts = this.#partsOf(format);
    this.#feed = this.#feedOf(format);
  }

  /** Is true when no more can be accepted now: then whole frames have to be dropped. */
  get isFull(): boolean {
    return this.#sink.isFull;
  }

  /** Takes frames in order of time. */
  add(frame: EncodedFrame, atMs: number): void {
    this.#writeHeld();
    this.#held = { frame, atMs };
  }

  /** Drops the held frame if it is within `withinMs` of a frame from a better layer. */
  replace(atMs: number, withinMs: number): void {
    if (this.#held && Math.abs(atMs - this.#held.atMs) < withinMs) this.#held = null;
  }

  /** Moves all frames of the file after the track's clock was corrected. */
  move(byMs: number): void {
    this.#startMs += byMs;
    this.#lastMs += byMs;
    if (this.#held) this.#held.atMs += byMs;
    this.record.offsetMs = Math.round(this.#startMs - this.#host.startedAtMs);
  }

  /** Ends the file after silence that was not sent. Resolves when everything is on disk. */
  async end(silenceMs = 0): Promise<void> {
    this.#writeHeld();
    this.parts?.end();
    this.record.durationMs += Math.round(silenceMs);
    const { tail, patches } = this.#file.finish(this.record.durationMs);
    await this.#sink.finish(tail, patches);
    this.record.bytes = this.#sink.bytes;
    this.#host.fileEnded(this.record);
  }

  #writeHeld(): void {
    if (!this.#held) return;
    const { frame, atMs } = this.#held;
    this.#held = null;
    const { record } = this;
    const durationMs = record.kind === "audio" ? opusDurationMs(frame.spans) : FRAME_MS;
    this.#sink.append(this.#file.add(frame.spans, atMs - this.#startMs, durationMs, frame.keyframe));
    this.parts?.add(frame.spans, atMs - this.#host.startedAtMs, durationMs, frame.keyframe);
    this.#feed?.(frame, atMs - this.#host.startedAtMs);
    this.#lastMs = Math.max(this.#lastMs, atMs + durationMs);
    record.durationMs = Math.round(this.#lastMs - this.#startMs);
    record.bytes = this.#sink.bytes;
  }

  #partsOf(format: TrackFormat): CmafParts | null {
    if (!this.#host.part) return null;
    if (!isStreamable(format)) {
      if (!this.#host.feed) this.#host.notStreamable?.(this.record);
      return null;
    }
    const { fileId, identity, trackId, kind, source, width, height } = this.record;
    const about = { fileId, identity, trackId, kind, source, width, height };
    const parts: CmafParts = new CmafParts(format, (piece) =>
      this.#host.part?.({ ...about, codecs: parts.codecs, ...piece }),
    );
    return parts;
  }

  #feedOf(format: TrackFormat): ((frame: EncodedFrame, atMs: number) => void) | null {
    const { feed } = this.#host;
    if (!feed || isStreamable(format) || format.codec === "h264") return null;
    const { fileId, identity, trackId, source, width, height } = this.record;
    const stream = new WebmFile(format);
    let head = stream.begin();
    return ({ spans, keyframe }, atMs) => {
      const begins = head.length > 0;
      const bytes = concatSpans([spanOf(head), ...stream.add(spans, atMs, FRAME_MS, keyframe)]);
      head = new Uint8Array(0);
      const about = { fileId, identity, trackId, source, width, height };
      feed({ ...about, atMs, keyframe, begins, data: Buffer.from(bytes).toString("base64") });
    };
  }
}
