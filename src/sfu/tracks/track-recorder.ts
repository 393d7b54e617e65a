/** A subscriber that writes a track down: the best layer that is sent, as it is, into one file for as long as it lasts. */
import type { RecordedFeed, RecordedFile, RecordedPart } from "../../protocol/media/recording.ts";
import { primaryOfRed } from "../codec/red.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import { CmafParts, isStreamable } from "../recording/cmaf-parts.ts";
import { FileSink } from "../recording/file-sink.ts";
import { formatOf, framesOf } from "../recording/formats.ts";
import { concat, type Depacketizer, type EncodedFrame } from "../recording/frame.ts";
import { FrameAssembler } from "../recording/frame-assembler.ts";
import type { MediaFile, TrackFormat } from "../recording/media-file.ts";
import { MediaTime } from "../recording/media-time.ts";
import { Mp4File } from "../recording/mp4-file.ts";
import { opusDurationMs } from "../recording/opus-frames.ts";
import { WebmFile } from "../recording/webm-file.ts";
import { RtpView } from "../rtp/rtp.ts";
import type { ClockReference } from "../rtp/timestamp-map.ts";
import type { PublishedLayer } from "./layer.ts";
import type { Publication, Subscriber } from "./publication.ts";

export type TrackRecorderHost = {
  directory: string;
  startedAtMs: number;
  newId(): string;
  fileStarted(file: RecordedFile): void;
  fileEnded(file: RecordedFile): void;
  /** The disk is too slow, and frames are left out. */
  slow(): void;
  failed(error: Error): void;
  /** Where a live stream is made of it. */
  part?(part: RecordedPart): void;
  notStreamable?(file: RecordedFile): void;
  /** Instead of saying that it cannot be streamed. */
  feed?(feed: RecordedFeed): void;
};

/** How long a picture stands when nothing is known about the next one. */
const FRAME_MS = 33;
/** Pictures of two layers that lie so close are the same one. */
const SAME_PICTURE_MS = 20;

/** One layer as it is read: its packets, and its clock. */
type Stream = { layer: number; ssrc: number; frames: Depacketizer; assembler: FrameAssembler; time: MediaTime };

type OpenFile = {
  record: RecordedFile;
  file: MediaFile;
  sink: FileSink;
  /** Server time of the first frame. */
  startMs: number;
  lastMs: number;
  /** The newest picture waits for the next: a better layer may show the same moment. */
  held: { frame: EncodedFrame; atMs: number } | null;
  parts: CmafParts | null;
  /** The same pictures on the recording's clock, for whoever encodes them anew. */
  feed: ((frame: EncodedFrame, atMs: number) => void) | null;
};

export class TrackRecorder implements Subscriber {
  readonly unwrapsRed = false;
  readonly catchUpFrom = null;
  readonly #publication: Publication;
  readonly #host: TrackRecorderHost;
  readonly #primary = new RtpView();
  readonly #ending: Promise<void>[] = [];
  /** What is written. */
  #current: Stream | null = null;
  /** What is to be written from its next keyframe on. */
  #next: Stream | null = null;
  #open: OpenFile | null = null;
  #nowMs = 0;
  /** Frames were left out: pictures go on at a keyframe. */
  #skipping = false;

  constructor(publication: Publication, host: TrackRecorderHost) {
    this.#publication = publication;
    this.#host = host;
    publication.add(this);
  }

  /** A viewer with a large screen and all the bandwidth there is: the publisher goes on encoding what it has. */
  get desiredLayer(): number | null {
    return this.#publication.layers.at(-1)?.index ?? null;
  }

  /** What is being written at the moment. */
  get record(): RecordedFile | null {
    return this.#open?.record ?? null;
  }

  ignores(): boolean {
    return false;
  }

  forward({ view, extended }: SourcePacket, layer: PublishedLayer, nowMs: number): null {
    this.#nowMs = nowMs;
    if (this.#publication.kind === "audio" && !this.#current) this.#current = this.#read(layer);
    for (const stream of [this.#current, this.#next]) {
      if (stream?.layer !== layer.index) continue;
      const current = stream.ssrc === layer.ssrc ? stream : this.#restarted(stream, layer);
      const from = this.#publication.codec?.codec === "red" && primaryOfRed(view, this.#primary) ? this.#primary : view;
      const payload = from.data.slice(from.payloadOffset, from.payloadOffset + from.payloadLength);
      current?.assembler.add(extended, view.timestamp, view.marker, payload, nowMs);
    }
    return null;
  }

  join(): boolean {
    return false;
  }

  refreshAudio(): void {}

  /** Seen by its SSRC, with its first packet. */
  restarted(): void {}

  /** The first packet, or another codec: that is another file. */
  sourceChanged(): void {
    this.#endFile();
    this.#current = this.#next = null;
  }

  reported(layer: number, reference: ClockReference): void {
    for (const stream of [this.#current, this.#next]) {
      if (stream?.layer !== layer) continue;
      const movedMs = stream.time.report(reference);
      if (stream !== this.#current || !this.#open) continue;
      this.#open.startMs += movedMs;
      this.#open.lastMs += movedMs;
      if (this.#open.held) this.#open.held.atMs += movedMs;
      this.#open.record.offsetMs = Math.round(this.#open.startMs - this.#host.startedAtMs);
    }
  }

  /** Every tenth of a second: gives up what is lost, and looks for a better layer. */
  tick(nowMs: number): void {
    this.#nowMs = nowMs;
    for (const stream of [this.#current, this.#next]) {
      if (this.#publication.muted) stream?.assembler.interrupt();
      else stream?.assembler.tick(nowMs);
    }
    if (this.#publication.kind !== "video" || this.#publication.muted) return;
    this.#chooseLayer(nowMs);
    // A viewer of a live stream comes in at a keyframe, and a call has none unless somebody asks.
    if (this.#current && this.#open?.parts?.isDue(nowMs - this.#host.startedAtMs))
      this.#publication.layerAt(this.#current.layer)?.askKeyframe();
  }

  #chooseLayer(nowMs: number): void {
    const live = this.#publication.liveMask(nowMs);
    if (live === 0) return;
    const best = this.#publication.layerAt(31 - Math.clz32(live));
    if (!best || best.index === this.#current?.layer) return;
    if (this.#next?.layer !== best.index) this.#next = this.#read(best);
    best.askKeyframe();
  }

  #read(layer: PublishedLayer): Stream | null {
    const { codec } = this.#publication;
    const frames = framesOf(codec?.codec);
    if (!codec || !frames) return null;
    const isVideo = this.#publication.kind === "video";
    const stream: Stream = {
      layer: layer.index,
      ssrc: layer.ssrc,
      frames,
      time: new MediaTime(codec.clockRate),
      assembler: new FrameAssembler(frames, isVideo, {
        frame: (frame) => this.#write(stream, frame),
        needKeyframe: () => layer.askKeyframe(),
      }),
    };
    if (layer.senderReport) stream.time.expect(layer.senderReport.reference);
    return stream;
  }

  /** The same layer under another SSRC: its numbers and its clock begin anew. */
  #restarted(stream: Stream, layer: PublishedLayer): Stream | null {
    const fresh = this.#read(layer);
    if (stream === this.#current) {
      stream.assembler.end();
      this.#current = fresh;
    } else this.#next = fresh;
    return fresh;
  }

  #write(stream: Stream, frame: EncodedFrame): void {
    const atMs = stream.time.at(frame.timestamp, this.#nowMs);
    const switched = stream === this.#next;
    if (switched) {
      if (!frame.keyframe) return;
      this.#current = stream;
      this.#next = null;
    } else if (stream !== this.#current) return;
    this.#open ??= this.#begin(stream, frame, atMs);
    const open = this.#open;
    if (!open) return;
    if (open.sink.isFull) {
      if (!this.#skipping) this.#host.slow();
      this.#skipping = true;
      return;
    }
    if (this.#skipping && !frame.keyframe) {
      this.#publication.layerAt(stream.layer)?.askKeyframe();
      return;
    }
    this.#skipping = false;
    if (switched && open.held && Math.abs(atMs - open.held.atMs) < SAME_PICTURE_MS) open.held = null;
    this.#writeHeld(open);
    open.held = { frame, atMs };
  }

  #writeHeld(open: OpenFile): void {
    if (!open.held) return;
    const { frame, atMs } = open.held;
    open.held = null;
    const durationMs = this.#publication.kind === "audio" ? opusDurationMs(frame.data) : FRAME_MS;
    open.sink.append(open.file.add(frame.data, atMs - open.startMs, durationMs, frame.keyframe));
    open.parts?.add(frame.data, atMs - this.#host.startedAtMs, durationMs, frame.keyframe);
    open.feed?.(frame, atMs - this.#host.startedAtMs);
    open.lastMs = Math.max(open.lastMs, atMs + durationMs);
    open.record.durationMs = Math.round(open.lastMs - open.startMs);
    open.record.bytes = open.sink.bytes;
  }

  #begin(stream: Stream, frame: EncodedFrame, atMs: number): OpenFile | null {
    const format = formatOf(stream.frames, frame);
    if (!format || !this.#publication.codec) return null;
    const file = format.codec === "h264" ? new Mp4File(format) : new WebmFile(format);
    const fileId = this.#host.newId();
    const fileName = `${fileId}.${format.codec === "h264" ? "mp4" : "webm"}`;
    const { identity, trackId, kind, source } = this.#publication;
    const record: RecordedFile = {
      fileId,
      fileName,
      identity,
      trackId,
      kind,
      source,
      codec: format.codec,
      mimeType: file.mimeType,
      offsetMs: Math.round(atMs - this.#host.startedAtMs),
      durationMs: 0,
      bytes: 0,
      width: format.codec === "opus" ? null : format.width,
      height: format.codec === "opus" ? null : format.height,
    };
    const sink = new FileSink(`${this.#host.directory}/${fileName}`, this.#host.failed);
    sink.append(file.begin());
    this.#host.fileStarted(record);
    const streamed = { parts: this.#partsOf(record, format), feed: this.#feedOf(record, format) };
    return { record, file, sink, startMs: atMs, lastMs: atMs, held: null, ...streamed };
  }

  #partsOf(record: RecordedFile, format: TrackFormat): CmafParts | null {
    if (!this.#host.part) return null;
    if (!isStreamable(format)) {
      if (!this.#host.feed) this.#host.notStreamable?.(record);
      return null;
    }
    const { fileId, identity, trackId, kind, source, width, height } = record;
    const about = { fileId, identity, trackId, kind, source, width, height };
    const parts: CmafParts = new CmafParts(format, (piece) =>
      this.#host.part?.({ ...about, codecs: parts.codecs, ...piece }),
    );
    return parts;
  }

  #feedOf(record: RecordedFile, format: TrackFormat): OpenFile["feed"] {
    const { feed } = this.#host;
    if (!feed || isStreamable(format) || format.codec === "h264") return null;
    const { fileId, identity, trackId, source, width, height } = record;
    const stream = new WebmFile(format);
    let head = stream.begin();
    return ({ data, keyframe }, atMs) => {
      const begins = head.length > 0;
      const bytes = concat([head, stream.add(data, atMs, FRAME_MS, keyframe)]);
      head = new Uint8Array(0);
      const about = { fileId, identity, trackId, source, width, height };
      feed({ ...about, atMs, keyframe, begins, data: Buffer.from(bytes).toString("base64") });
    };
  }

  #endFile(): void {
    this.#current?.assembler.end();
    const open = this.#open;
    this.#open = null;
    if (!open) return;
    this.#writeHeld(open);
    open.parts?.end();
    const { tail, patches } = open.file.finish();
    const done = open.sink.finish(tail, patches).then(() => {
      open.record.bytes = open.sink.bytes;
      this.#host.fileEnded(open.record);
    });
    this.#ending.push(done);
  }

  /** Resolves when everything is on disk. */
  async end(): Promise<void> {
    this.#publication.remove(this);
    this.#endFile();
    await Promise.all(this.#ending);
  }
}
