/** A subscriber that records a track: the best layer that is sent, unchanged, into one file per codec. */
import type { RecordedFile } from "../../protocol/media/recording.ts";
import type { PacketRun, ReceiveBatch } from "../fast-path/receive-batch.ts";
import type { SourcePacket } from "../forwarding/source-packet.ts";
import { AudioLag } from "../recording/audio-lag.ts";
import { formatOf, framesOf } from "../recording/media-file.ts";
import { MediaTime } from "../recording/media-time.ts";
import { TrackFile, type TrackFileHost } from "../recording/track-file.ts";
import { primaryOfRed } from "../wire/codec/red.ts";
import type { Depacketizer, EncodedFrame } from "../wire/frames/frame.ts";
import { FrameAssembler } from "../wire/frames/frame-assembler.ts";
import { RtpView } from "../wire/rtp/rtp.ts";
import type { ClockReference } from "../wire/rtp/timestamp-map.ts";
import type { Publication, Subscriber } from "./publication.ts";
import type { PublishedLayer } from "./published-layer.ts";

export type TrackRecorderHost = TrackFileHost & {
  /** Called when the disk is too slow and frames are dropped. */
  slow(): void;
};

/** Frames of two layers within this time are the same video frame. */
const SAME_FRAME_MS = 20;

/** A silent microphone sends a packet every 400 ms (DTX), which may be a little late. */
const SILENCE_MS = 600;

type Stream = {
  layer: number;
  ssrc: number;
  frames: Depacketizer;
  assembler: FrameAssembler;
  time: MediaTime;
  /** For audio only. */
  lag: AudioLag | null;
  /** The number and arrival time of the newest packet; earlier ones may still be missing. */
  newest: number;
  heardMs: number;
};

export class TrackRecorder implements Subscriber {
  readonly unwrapsRed = false;
  readonly catchUpFrom = null;
  readonly #publication: Publication;
  readonly #host: TrackRecorderHost;
  readonly #primary = new RtpView();
  readonly #view = new RtpView();
  readonly #ending: Promise<void>[] = [];
  #current: Stream | null = null;
  /** The layer that is written from its next keyframe on. */
  #next: Stream | null = null;
  #open: TrackFile | null = null;
  #nowMs = 0;
  /** Frames were dropped, so video continues with a keyframe. */
  #skipping = false;

  constructor(publication: Publication, host: TrackRecorderHost) {
    this.#publication = publication;
    this.#host = host;
    publication.add(this);
  }

  /** The highest layer, so that the publisher keeps encoding all layers. */
  get desiredLayer(): number | null {
    return this.#publication.choices.at(-1)?.index ?? null;
  }

  get record(): RecordedFile | null {
    return this.#open?.record ?? null;
  }

  ignores(): boolean {
    return false;
  }

  forward({ view, extended }: SourcePacket, layer: PublishedLayer, nowMs: number): null {
    // Adding a packet to one of the two streams may make the other the current one.
    const current = this.#currentOf(layer, nowMs);
    const next = this.#next;
    if (current) this.#add(this.#reading(current, layer), view, extended, nowMs);
    if (next?.layer === layer.index) this.#add(this.#reading(next, layer), view, extended, nowMs);
    return null;
  }

  forwardRun(run: PacketRun, batch: ReceiveBatch, layer: PublishedLayer, nowMs: number): void {
    const current = this.#currentOf(layer, nowMs);
    const next = this.#next;
    if (current) this.#addRun(this.#reading(current, layer), run, batch, nowMs);
    if (next?.layer === layer.index) this.#addRun(this.#reading(next, layer), run, batch, nowMs);
  }

  #currentOf(layer: PublishedLayer, nowMs: number): Stream | null {
    this.#nowMs = nowMs;
    if (this.#publication.kind === "audio" && !this.#current) this.#current = this.#read(layer);
    return this.#current?.layer === layer.index ? this.#current : null;
  }

  #reading(stream: Stream, layer: PublishedLayer): Stream | null {
    return stream.ssrc === layer.ssrc ? stream : this.#restarted(stream, layer);
  }

  #addRun(stream: Stream | null, run: PacketRun, batch: ReceiveBatch, nowMs: number): void {
    const view = this.#view;
    for (let i = run.first; i < run.first + run.count; i++) {
      if (view.parse(batch.datagram(i))) this.#add(stream, view, run.extended + i - run.first, nowMs);
    }
  }

  #add(stream: Stream | null, view: RtpView, extended: number, nowMs: number): void {
    if (stream && extended > stream.newest) {
      stream.newest = extended;
      stream.heardMs = nowMs;
    }
    const isRed = this.#publication.codec?.codec === "red" && primaryOfRed(view, this.#primary);
    const { data, payloadOffset, payloadLength } = isRed ? this.#primary : view;
    const payload = { data, at: payloadOffset, length: payloadLength };
    stream?.lag?.sent(view.timestamp, payload);
    stream?.assembler.add(extended, view.timestamp, view.marker, payload, nowMs);
  }

  join(): boolean {
    return false;
  }

  refreshAudio(): void {}

  /** A restart is recognised by the SSRC of its first packet. */
  restarted(): void {}

  /** Another codec begins another file. */
  sourceChanged(): void {
    this.#endFile();
    this.#current = this.#next = null;
  }

  reported(layer: number, reference: ClockReference): void {
    for (const stream of [this.#current, this.#next]) {
      if (stream?.layer !== layer) continue;
      const lagMs = stream.lag?.ms ?? 0;
      stream.lag?.judge(reference);
      const lessMs = lagMs - (stream.lag?.ms ?? 0);
      if (lessMs !== 0) this.#move(stream, lessMs);
      const movedMs = stream.time.report(withoutLag(reference, stream));
      if (stream === this.#current && movedMs !== 0) this.#open?.move(movedMs);
    }
  }

  clockMoved(byMs: number): void {
    for (const stream of [this.#current, this.#next]) if (stream) this.#move(stream, byMs);
  }

  #move(stream: Stream, byMs: number): void {
    if (stream.time.move(byMs) && stream === this.#current) this.#open?.move(byMs);
  }

  /** Gives up lost packets and looks for a better layer, ten times a second. */
  tick(nowMs: number): void {
    this.#nowMs = nowMs;
    for (const stream of [this.#current, this.#next]) {
      if (this.#publication.muted) stream?.assembler.interrupt();
      else stream?.assembler.tick(nowMs);
    }
    if (this.#publication.kind !== "video" || this.#publication.muted) return;
    this.#chooseLayer(nowMs);
    // A live stream needs regular keyframes, where viewers start. In a call there are none unless they are requested.
    if (this.#current && this.#open?.parts?.isDue(nowMs - this.#host.startedAtMs))
      this.#publication.layerAt(this.#current.layer)?.requestKeyframe();
  }

  #chooseLayer(nowMs: number): void {
    const live = this.#publication.liveMask(nowMs);
    if (live === 0) return;
    const best = this.#publication.layerAt(31 - Math.clz32(live));
    if (!best || best.index === this.#current?.layer) return;
    if (this.#next?.layer !== best.index) this.#next = this.#read(best);
    best.requestKeyframe();
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
      lag: isVideo ? null : new AudioLag(codec.clockRate),
      newest: -1,
      heardMs: 0,
      assembler: new FrameAssembler(frames, isVideo, {
        frame: (frame) => this.#write(stream, frame),
        needKeyframe: () => layer.requestKeyframe(),
      }),
    };
    if (layer.senderReport) stream.time.expect(withoutLag(layer.senderReport.reference, stream));
    return stream;
  }

  /** A layer that continues under another SSRC has new sequence numbers and a new RTP clock. */
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
    if (open.isFull) {
      if (!this.#skipping) this.#host.slow();
      this.#skipping = true;
      return;
    }
    if (this.#skipping && !frame.keyframe) {
      this.#publication.layerAt(stream.layer)?.requestKeyframe();
      return;
    }
    this.#skipping = false;
    if (switched) open.replace(atMs, SAME_FRAME_MS);
    open.add(frame, atMs);
  }

  #begin(stream: Stream, frame: EncodedFrame, atMs: number): TrackFile | null {
    const format = formatOf(stream.frames, frame);
    return format && new TrackFile(this.#publication, format, atMs, this.#host);
  }

  #endFile(): void {
    this.#current?.assembler.end();
    const open = this.#open;
    this.#open = null;
    if (open) this.#ending.push(open.end(this.#silenceMs()));
  }

  /** The length of the silence at the end of an unmuted microphone, which belongs to the recording. */
  #silenceMs(): number {
    if (this.#publication.kind !== "audio" || this.#publication.muted) return 0;
    const sinceMs = this.#nowMs - (this.#current?.heardMs ?? this.#nowMs);
    return sinceMs <= SILENCE_MS ? sinceMs : 0;
  }

  /** Resolves when everything is on disk. */
  async end(): Promise<void> {
    this.#publication.remove(this);
    this.#endFile();
    await Promise.all(this.#ending);
  }
}

function withoutLag({ ntpMs, rtpTimestamp }: ClockReference, { lag }: Stream): ClockReference {
  return { ntpMs: ntpMs - (lag?.ms ?? 0), rtpTimestamp };
}
