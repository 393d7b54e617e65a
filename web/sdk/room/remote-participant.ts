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

/** Somebody else in the room. */
export class RemoteParticipant {
  /** As their token names them: one in a room. */
  readonly identity: string;
  /** What is known of them beside their identity. */
  metadata: string | null;
  /** For people to read; null when their token names none. */
  name: string | null;
  /** What is known of them, by name; merged on a change. */
  attributes: Readonly<Record<string, string>>;
  /** A person or a program, an agent, or an encoder (`ingress`). */
  readonly kind: ParticipantKind;
  /** ISO 8601. */
  joinedAt: string;
  /** How their connection fares; null until it was measured. */
  quality: Quality | null = null;
  /** 0 to 1; 0 unless among the active speakers. */
  audioLevel = 0;
  /** What they publish, by track id. */
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

  /** Whether they are among the active speakers. */
  get isSpeaking(): boolean {
    return this.audioLevel > 0;
  }

  /** The first track of a source: `participant.track("camera")`. */
  track(source: RemoteTrack["source"]): RemoteTrack | undefined {
    return [...this.tracks.values()].find((track) => track.source === source);
  }
}

/** What the page wants of a track right now. */
export type SubscriptionSettings = {
  subscribed: boolean;
  paused: boolean;
  maxHeight?: number;
  layer?: Layer | "auto";
  priority?: number;
};

/** What arrives of a track, and why not more. */
export type Delivered = { layer: Layer | null; paused: boolean; reason: string };

/** Somebody else's microphone, camera or screen. */
export class RemoteTrack {
  /** The server's name for it. */
  readonly id: string;
  /** `audio` or `video`. */
  readonly kind: TrackKind;
  /** What it shows. */
  readonly source: TrackSource;
  /** As its publisher named it. */
  readonly name: string | null;
  /** Its publisher has silenced it. */
  muted: boolean;
  /** Null until the track is subscribed. */
  mediaStreamTrack: MediaStreamTrack | null = null;
  /** What the server really sends; it may be less than asked for when bandwidth is short. */
  delivered: Delivered | null = null;
  readonly #onSettingsChanged: () => void;
  readonly #observer: ElementObserver;
  readonly #elements = new Set<HTMLMediaElement>();
  #choice: { subscribed: boolean; layer?: Layer | "auto"; priority?: number };

  /** @internal */
  constructor(
    track: Track,
    /** Who publishes it. */
    readonly participant: RemoteParticipant,
    subscribed: boolean,
    onDemand: () => void,
  ) {
    this.#onSettingsChanged = onDemand;
    this.id = track.id;
    this.kind = track.kind;
    this.source = track.source;
    this.name = track.name;
    this.muted = track.muted;
    this.#choice = { subscribed };
    this.#observer = new ElementObserver(onDemand);
  }

  /** Plays the track in the element, or in a new one. The server is asked for no more than the element shows. */
  attach(element: HTMLMediaElement = document.createElement(this.kind)): HTMLMediaElement {
    element.autoplay = true;
    if (element instanceof HTMLVideoElement) {
      element.playsInline = true;
      // Sound has elements of its own; an unmuted video element would be kept from starting by autoplay rules.
      element.muted = true;
    }
    this.#elements.add(element);
    this.#show(element);
    if (this.kind === "video") this.#observer.add(element);
    return element;
  }

  /** From one element, or from all of them. */
  detach(element?: HTMLMediaElement): void {
    for (const one of element ? [element] : [...this.#elements]) {
      if (!this.#elements.delete(one)) continue;
      one.srcObject = null;
      this.#observer.remove(one);
    }
  }

  /** Stops or starts receiving it at all. */
  setSubscribed(subscribed: boolean): void {
    this.#choice.subscribed = subscribed;
    this.#onSettingsChanged();
  }

  /** Overrides what the size of the elements would ask for. */
  setLayer(layer: Layer | "auto"): void {
    this.#choice.layer = layer;
    this.#onSettingsChanged();
  }

  /** Higher is served first when bandwidth is short. */
  setPriority(priority: number): void {
    this.#choice.priority = priority;
    this.#onSettingsChanged();
  }

  /** @internal */
  get settings(): SubscriptionSettings {
    const { subscribed, layer, priority } = this.#choice;
    const choice = { ...(layer === undefined ? {} : { layer }), ...(priority === undefined ? {} : { priority }) };
    if (this.kind === "audio" || this.#observer.size === 0) return { subscribed: subscribed, paused: false, ...choice };
    const { visible, heightPx } = this.#observer.visibility;
    return { subscribed: subscribed, paused: !visible, ...(visible ? { maxHeight: stepUp(heightPx) } : {}), ...choice };
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

/** Heights between which no layer lies are the same to the server: a page that is being resized need not tell each. */
const STEPS = [90, 180, 270, 360, 540, 720, 1080, 1440, 2160, 4320];

function stepUp(heightPx: number): number {
  return STEPS.find((step) => step >= heightPx) ?? 8640;
}
