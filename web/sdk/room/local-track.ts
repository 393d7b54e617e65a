import type { Layer, TrackKind, TrackSource } from "../../../src/protocol/room-records.ts";
import { uuid } from "../uuid.ts";
import { supportsScalabilityMode, type VideoCodec } from "./peer/codecs.ts";
import { activateOnly, videoEncodings } from "./peer/encodings.ts";
import type { ProcessorContext, TrackProcessor } from "./track-processor.ts";

/** Options for publishing a track. */
export type PublishOptions = {
  /** The track's source; `other` by default. */
  source?: TrackSource;
  /** The track's name for other participants, at most 128 characters. */
  name?: string;
  /**
   * Whether an audio track is music: stereo, at 128 kbit/s and without DTX. True by default for a screen's audio.
   * `encodings: [{ maxBitrate }]` sets another rate, up to 256,000.
   */
  music?: boolean;
  /** Whether to send several layers of a video, so that each subscriber receives the one that fits; true by default. */
  simulcast?: boolean;
  /** The video codec; VP8 by default. While a subscriber cannot decode it, the video is sent in VP8 or H.264 too, at 360 lines. */
  codec?: VideoCodec;
  /** Overrides the encodings that the SDK chooses by source and size. */
  encodings?: RTCRtpEncodingParameters[];
  /** Changes the track before it is sent, for example `noiseSuppression()` of `stoa/processors`. */
  processor?: TrackProcessor;
};

/** @internal What a sending section needs of a track, or of its backup in another codec. */
export type SentTrack = Pick<
  LocalTrack,
  | "clientTrackId"
  | "codec"
  | "encodings"
  | "id"
  | "kind"
  | "maxBitrate"
  | "mediaStreamTrack"
  | "music"
  | "name"
  | "sender"
  | "source"
> & { readonly backupOf?: string };

/** A track that the local participant publishes. */
export class LocalTrack {
  /** @internal */
  readonly clientTrackId = uuid();
  /** The track's kind: `audio` or `video`. */
  readonly kind: TrackKind;
  /** The track's source. */
  readonly source: TrackSource;
  /** The track's name, if it was published with one. */
  readonly name: string | undefined;
  /** @internal */
  readonly codec: VideoCodec | undefined;
  /** @internal */
  readonly music: boolean;
  /** @internal */
  readonly encodings: RTCRtpEncodingParameters[];
  /** The track's id on the server; null until it is published. */
  id: string | null = null;
  /** The media track that is being sent: that of the device, or what the processor makes of it. */
  mediaStreamTrack: MediaStreamTrack;
  /** The media track of the device or the page, before any processor; `switchDevice` replaces it. */
  sourceTrack: MediaStreamTrack;
  /** Whether the track is muted. */
  muted = false;
  /** @internal */
  sender: RTCRtpSender | null = null;
  /** @internal The track in another codec, while viewers need it. */
  backup: SentTrack | null = null;
  readonly #elements = new Set<HTMLMediaElement>();
  readonly #context: ProcessorContext;
  #processor: TrackProcessor | null = null;
  #processing: Promise<void> = Promise.resolve();
  #closed = false;
  #encoding: Promise<void> = Promise.resolve();

  /** @internal */
  constructor(track: MediaStreamTrack, options: PublishOptions, context: ProcessorContext) {
    this.mediaStreamTrack = track;
    this.sourceTrack = track;
    this.#context = context;
    this.kind = track.kind as TrackKind;
    this.source = options.source ?? "other";
    this.name = options.name;
    this.codec = options.codec;
    this.music = this.kind === "audio" && (options.music ?? this.source === "screenShareAudio");
    const { height = 720 } = track.getSettings();
    this.encodings =
      options.encodings ??
      (this.kind === "audio"
        ? [{ maxBitrate: this.music ? 128_000 : 48_000 }]
        : videoEncodings(this.source, height, {
            // Firefox encodes each layer of VP9 at the size of the smallest one.
            simulcast: (options.simulcast ?? true) && (options.codec !== "VP9" || supportsScalabilityMode()),
            codec: options.codec,
          }));
  }

  /** @internal The limit for the whole track. */
  get maxBitrate(): number {
    return this.encodings.at(-1)?.maxBitrate ?? Number.POSITIVE_INFINITY;
  }

  /** Plays the track in an element, without sound; creates the element if none is passed. */
  attach(element: HTMLMediaElement = document.createElement(this.kind)): HTMLMediaElement {
    element.autoplay = true;
    element.muted = true;
    if (element instanceof HTMLVideoElement) element.playsInline = true;
    element.srcObject = new MediaStream([this.mediaStreamTrack]);
    this.#elements.add(element);
    return element;
  }

  /** Detaches the track from one element, or from all. */
  detach(element?: HTMLMediaElement): void {
    for (const one of element ? [element] : [...this.#elements]) {
      if (this.#elements.delete(one)) one.srcObject = null;
    }
  }

  /** Processes the track from now on, or sends it as it is with null. When it fails, nothing has changed. */
  setProcessor(processor: TrackProcessor | null): Promise<void> {
    return this.#afterProcessing(async () => {
      const output = processor ? await processor.init(this.sourceTrack, this.#context) : this.sourceTrack;
      const before = this.#processor;
      this.#processor = processor;
      await this.#send(output);
      if (before !== processor) before?.destroy();
    });
  }

  /** @internal Replaces the media track without republishing. */
  replace(track: MediaStreamTrack): Promise<void> {
    return this.#afterProcessing(async () => {
      const before = this.sourceTrack;
      this.sourceTrack = track;
      this.#processor?.destroy();
      const output = this.#processor ? await this.#processor.init(track, this.#context) : track;
      await this.#send(output);
      before.stop();
    });
  }

  /** @internal */
  setMuted(muted: boolean): void {
    this.muted = muted;
    this.sourceTrack.enabled = !muted;
    this.mediaStreamTrack.enabled = !muted;
  }

  async #send(track: MediaStreamTrack): Promise<void> {
    this.mediaStreamTrack = track;
    this.setMuted(this.muted);
    for (const one of [this, this.backup]) await one?.sender?.replaceTrack(track);
    for (const element of this.#elements) element.srcObject = new MediaStream([track]);
    // While a processor loaded, the track may have been unpublished.
    if (this.#closed) this.close();
  }

  #afterProcessing(work: () => Promise<void>): Promise<void> {
    const run = this.#processing.then(work);
    this.#processing = run.catch(() => {});
    return run;
  }

  /** @internal Changes are applied one after another, because a sender rejects parameters read before the last change. */
  setWantedLayers(layers: readonly Layer[]): Promise<void> {
    const { sender, kind } = this;
    if (!sender || kind !== "video") return Promise.resolve();
    const run = this.#encoding.then(async () => {
      const parameters = sender.getParameters();
      if (this.sender === sender && activateOnly(parameters.encodings, layers)) await sender.setParameters(parameters);
    });
    this.#encoding = run.catch(() => {});
    return run;
  }

  /** @internal */
  close(): void {
    this.#closed = true;
    this.detach();
    this.#processor?.destroy();
    this.mediaStreamTrack.stop();
    this.sourceTrack.stop();
  }
}
