// One file of a track while it is written: from its first frame until the track ends or goes on in another codec.

import type { RecordedFeed, RecordedFile, RecordedPart } from "../../protocol/media/recording.ts";
import type { TrackKind, TrackSource } from "../../protocol/room-records.ts";
import { type EncodedFrame, concatSpans, spanOf } from "../wire/frames/frame.ts";
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
  /** Where a live stream is made of it. */
  part?(part: RecordedPart): void;
  notStreamable?(file: RecordedFile): void;
  /** Instead of saying that it cannot be streamed. */
  feed?(feed: RecordedFeed): void;
};

/** Whose it is. */
export type RecordedTrack = { identity: string; trackId: string; kind: TrackKind; source: TrackSource };

/** How long a picture stands when nothing is known about the next one. */
const FRAME_MS = 33;

export class TrackFile {
  readonly record: RecordedFile;
  readonly parts: CmafParts | null;
  readonly #host: TrackFileHost;
  readonly #file: MediaFile;
  readonly #sink: FileSink;
  /** The same pictures on the recording's clock, for whoever encodes them anew. */
  readonly #feed: ((frame: EncodedFrame, atMs: number) => void) | null;
  /** Server time of the first frame. */
  #startMs: number;
  #lastMs: number;
  /** The newest picture waits for the next: a better layer may show the same moment. */
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
      ...{ identity, trackId, kind, source },
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

  /** Nothing more can be taken at the moment: leave out whole frames. */
  get isFull(): boolean {
    return this.#sink.isFull;
  }

  /** Frames come in the order of their time. */
  add(frame: EncodedFrame, atMs: number): void {
    this.#writeHeld();
    this.#held = { frame, atMs };
  }

  /** Another layer shows this moment better: the picture that was the last is left out when it lies so close. */
  replace(atMs: number, withinMs: number): void {
    if (this.#held && Math.abs(atMs - this.#held.atMs) < withinMs) this.#held = null;
  }

  /** The clock of the track is known better: everything in the file lies that much later. */
  move(byMs: number): void {
    this.#startMs += byMs;
    this.#lastMs += byMs;
    if (this.#held) this.#held.atMs += byMs;
    this.record.offsetMs = Math.round(this.#startMs - this.#host.startedAtMs);
  }

  /** After so much silence, of which nothing was sent. Resolves when everything is on disk. */
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
