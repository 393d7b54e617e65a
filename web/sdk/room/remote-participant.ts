import type { Decryption } from "../../../src/protocol/encryption/room-keys.ts";
import type {
  Layer,
  Participant,
  ParticipantKind,
  Quality,
  Track,
  TrackKind,
  TrackSource,
} from "../../../src/protocol/room-records.ts";
import { ElementObserver } from "./element-observer.ts";

/** Another participant in the room. */
export class RemoteParticipant {
  /** The participant's identity, unique in the room. */
  readonly identity: string;
  /** The participant's metadata. */
  metadata: string | null;
  /** The display name; null if the token has none. */
  name: string | null;
  /** The participant's attributes. */
  attributes: Readonly<Record<string, string>>;
  /** The participant's kind: a client (`standard`), an agent, or an encoder (`ingress`). */
  readonly kind: ParticipantKind;
  /** When the participant joined, in ISO 8601. */
  joinedAt: string;
  /** The participant's connection quality; null until it is measured. */
  quality: Quality | null = null;
  /** The audio level from 0 to 1; 0 unless the participant is an active speaker. */
  audioLevel = 0;
  /** The participant's published tracks, by id. */
  readonly tracks = new Map<string, RemoteTrack>();

  /** @internal */
  constructor({ identity, metadata, name, attributes, kind, joinedAt }: Participant) {
    this.identity = identity;
    this.metadata = metadata;
    this.name = name;
    this.attributes = attributes;
    this.kind = kind;
    this.joinedAt = joinedAt;
  }

  /** Whether the participant is among the active speakers. */
  get isSpeaking(): boolean {
    return this.audioLevel > 0;
  }

  /** The participant's first track of a source, for example `participant.track("camera")`. */
  track(source: RemoteTrack["source"]): RemoteTrack | undefined {
    return [...this.tracks.values()].find((track) => track.source === source);
  }
}

/** Which part of a track the page needs right now. */
export type SubscriptionSettings = {
  subscribed: boolean;
  paused: boolean;
  maxHeight?: number;
  layer?: Layer | "auto";
  priority?: number;
};

/** The layer of a track that the server sends, and why it sends no more. */
export type Delivered = { layer: Layer | null; paused: boolean; reason: string };

/** A track that another participant publishes. */
export class RemoteTrack {
  /** The track's id. */
  readonly id: string;
  /** The track's kind: `audio` or `video`. */
  readonly kind: TrackKind;
  /** The track's source. */
  readonly source: TrackSource;
  /** The track's name, if its publisher has set one. */
  readonly name: string | null;
  /** Whether the track is muted. */
  muted: boolean;
  /** Whether the track is end-to-end encrypted. */
  readonly encrypted: boolean;
  /**
   * Whether this page can decrypt the track; always `ok` for one that is not encrypted. A track whose key is missing or
   * another one (`failed`) is not subscribed until the key has come.
   */
  decryption: Decryption;
  /** The received media track; null while the track is not subscribed. */
  mediaStreamTrack: MediaStreamTrack | null = null;
  /** What the server currently sends, which may be less than requested when bandwidth is short. */
  delivered: Delivered | null = null;
  readonly #onSettingsChanged: () => void;
  readonly #observer: ElementObserver;
  readonly #elements = new Set<HTMLMediaElement>();
  #isChosen = false;
  #choice: { subscribed: boolean; layer?: Layer | "auto"; priority?: number };

  /** @internal */
  constructor(
    track: Track,
    /** The track's publisher. */
    readonly participant: RemoteParticipant,
    subscribed: boolean,
    onSettingsChanged: () => void,
  ) {
    this.#onSettingsChanged = onSettingsChanged;
    this.id = track.id;
    this.kind = track.kind;
    this.source = track.source;
    this.name = track.name;
    this.muted = track.muted;
    this.encrypted = track.encryption !== undefined;
    this.decryption = this.encrypted ? "missing-key" : "ok";
    this.#choice = { subscribed };
    this.#observer = new ElementObserver(onSettingsChanged);
  }

  /**
   * Plays the track in an element; creates the element if none is passed. The server sends the video layer that fits the
   * element's size.
   */
  attach(element: HTMLMediaElement = document.createElement(this.kind)): HTMLMediaElement {
    element.autoplay = true;
    if (element instanceof HTMLVideoElement) {
      element.playsInline = true;
      // Audio tracks have their own elements, and autoplay rules would block an unmuted video element.
      element.muted = true;
    }
    this.#elements.add(element);
    this.#show(element);
    if (this.kind === "video") this.#observer.add(element);
    return element;
  }

  /** Detaches the track from one element, or from all. */
  detach(element?: HTMLMediaElement): void {
    for (const one of element ? [element] : [...this.#elements]) {
      if (!this.#elements.delete(one)) continue;
      one.srcObject = null;
      this.#observer.remove(one);
    }
  }

  /** Subscribes to the track or unsubscribes from it. */
  setSubscribed(subscribed: boolean): void {
    this.#choice.subscribed = subscribed;
    this.#isChosen = true;
    this.#onSettingsChanged();
  }

  /** Requests a layer instead of the one that fits the elements' size. */
  setLayer(layer: Layer | "auto"): void {
    this.#choice.layer = layer;
    this.#onSettingsChanged();
  }

  /** Sets the priority: a higher one is served first when bandwidth is short. */
  setPriority(priority: number): void {
    this.#choice.priority = priority;
    this.#onSettingsChanged();
  }

  /** @internal Whether it may be heard on a shared section; a track that the page chose has its own. */
  get isVoice(): boolean {
    return this.source === "microphone" && !this.#isChosen && this.#choice.subscribed && !this.encrypted;
  }

  /** @internal */
  get settings(): SubscriptionSettings {
    const { layer, priority } = this.#choice;
    const subscribed = this.#choice.subscribed && this.decryption === "ok";
    const choice = { ...(layer === undefined ? {} : { layer }), ...(priority === undefined ? {} : { priority }) };
    if (this.kind === "audio" || this.#observer.size === 0) return { subscribed, paused: false, ...choice };
    const { visible, heightPx } = this.#observer.visibility;
    return {
      subscribed,
      paused: !visible,
      ...(visible ? { maxHeight: roundUpHeight(heightPx) } : {}),
      ...choice,
    };
  }

  /** @internal Returns whether this has changed. */
  setDecryption(decryption: Decryption): boolean {
    if (!this.encrypted || this.decryption === decryption) return false;
    this.decryption = decryption;
    this.#onSettingsChanged();
    return true;
  }

  /** @internal */
  setMedia(track: MediaStreamTrack | null): void {
    if (this.mediaStreamTrack === track) return;
    this.mediaStreamTrack = track;
    for (const element of this.#elements) this.#show(element);
  }

  /** @internal */
  close(): void {
    this.detach();
    this.#observer.close();
    this.mediaStreamTrack = null;
  }

  #show(element: HTMLMediaElement): void {
    if (element.srcObject instanceof MediaStream && element.srcObject.getTracks()[0] === this.mediaStreamTrack) return;
    element.srcObject = this.mediaStreamTrack ? new MediaStream([this.mediaStreamTrack]) : null;
  }
}

/** Heights are rounded up to these values, so that resizing a page does not cause an update for every pixel. */
const HEIGHTS = [90, 180, 270, 360, 540, 720, 1080, 1440, 2160, 4320];

function roundUpHeight(heightPx: number): number {
  return HEIGHTS.find((height) => height >= heightPx) ?? 8640;
}
