import type { Layer, TrackKind, TrackSource } from "../../../src/protocol/room-records.ts";
import { uuid } from "../uuid.ts";
import type { VideoCodec } from "./peer/codecs.ts";
import { activateOnly, videoEncodings } from "./peer/encodings.ts";

/** How a track is published. */
export type PublishOptions = {
  /** What it shows; `other` unless given. */
  source?: TrackSource;
  /** For the others to read, at most 128 characters. */
  name?: string;
  /** Several sizes at once, so that every viewer gets what fits; on by default for video. */
  simulcast?: boolean;
  /** VP8 unless given. Whoever cannot decode it is told so and sees nothing. */
  codec?: VideoCodec;
  /** Overrides the bit rates chosen by size. */
  encodings?: RTCRtpEncodingParameters[];
};

/** A microphone, camera, screen or any track of the page's own that this participant publishes. */
export class LocalTrack {
  /** @internal */
  readonly clientTrackId = uuid();
  /** `audio` or `video`. */
  readonly kind: TrackKind;
  /** What it shows. */
  readonly source: TrackSource;
  /** As given when it was published. */
  readonly name: string | undefined;
  /** @internal */
  readonly codec: VideoCodec | undefined;
  /** @internal */
  readonly encodings: RTCRtpEncodingParameters[];
  /** The server's name for it; null until it is published. */
  id: string | null = null;
  /** What is being sent; another one after `switchDevice`. */
  mediaStreamTrack: MediaStreamTrack;
  /** Published, but silent or black. */
  muted = false;
  /** @internal */
  sender: RTCRtpSender | null = null;
  readonly #elements = new Set<HTMLMediaElement>();
  #encoding: Promise<void> = Promise.resolve();

  /** @internal */
  constructor(track: MediaStreamTrack, options: PublishOptions) {
    this.mediaStreamTrack = track;
    this.kind = track.kind as TrackKind;
    this.source = options.source ?? "other";
    this.name = options.name;
    this.codec = options.codec;
    const { height = 720 } = track.getSettings();
    this.encodings =
      options.encodings ??
      (this.kind === "audio"
        ? [{ maxBitrate: this.source === "screenShareAudio" ? 128_000 : 48_000 }]
        : videoEncodings(this.source, height, { simulcast: options.simulcast ?? true, codec: options.codec }));
  }

  /** Shows what is being published, without sound. */
  attach(element: HTMLMediaElement = document.createElement(this.kind)): HTMLMediaElement {
    element.autoplay = true;
    element.muted = true;
    if (element instanceof HTMLVideoElement) element.playsInline = true;
    element.srcObject = new MediaStream([this.mediaStreamTrack]);
    this.#elements.add(element);
    return element;
  }

  /** From one element, or from all of them. */
  detach(element?: HTMLMediaElement): void {
    for (const one of element ? [element] : [...this.#elements]) {
      if (this.#elements.delete(one)) one.srcObject = null;
    }
  }

  /** @internal Another device, the same publication: viewers notice nothing but the picture. */
  async replace(track: MediaStreamTrack): Promise<void> {
    const before = this.mediaStreamTrack;
    track.enabled = !this.muted;
    this.mediaStreamTrack = track;
    await this.sender?.replaceTrack(track);
    before.stop();
    for (const element of this.#elements) element.srcObject = new MediaStream([track]);
  }

  /** @internal One change after another: a sender refuses parameters that were read before the last change. */
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
    this.detach();
    this.mediaStreamTrack.stop();
  }
}
