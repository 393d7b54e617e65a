/** The tracks of the room: received as by a participant, decoded, and placed on this machine's clock. */
import type { NegotiateAnswer } from "../../../protocol/media-node.ts";
import type { SubscribedSection, SubscriptionChange } from "../../../protocol/signaling.ts";
import { MediaConnection, type SubscribedTrack } from "../../../rtc-client/participant/media-connection.ts";
import { SimulatedNetwork } from "../../../rtc-client/participant/simulated-network.ts";
import type { Frame } from "./canvas.ts";
import { VideoDecoder } from "./decoder.ts";
import type { Mixer } from "./mixer.ts";
import { LeastDelay, TrackClock } from "./playout-clock.ts";
import type { SceneTrack, Stage, Tile } from "./scene.ts";

const AUDIO_CLOCK = 48_000;
const VIDEO_CLOCK = 90_000;
/** A video whose participant has no tile is received only in its lowest layer. */
type Wanted = { track: SceneTrack; tile: Stage | null };

type RoomInputDeps = {
  ffmpeg: string;
  mixer: Mixer;
  hasAudio: boolean;
  now: () => number;
  negotiate: (sdp: string, subscribe: SubscribedSection[]) => Promise<NegotiateAnswer>;
  update: (tracks: SubscriptionChange[]) => void;
  onError: (error: Error) => void;
};

export class RoomInput {
  readonly #deps: RoomInputDeps;
  readonly #clocks = new Map<string, TrackClock>();
  readonly #delays = new Map<string, LeastDelay>();
  readonly #decoders = new Map<string, VideoDecoder>();
  #media: MediaConnection | null = null;
  #wanted = new Map<string, Wanted>();
  #connected: Promise<void> | null = null;
  /** Audio has been received, and no video is expected. */
  #hears = false;

  constructor(deps: RoomInputDeps) {
    this.#deps = deps;
  }

  /** Receives the audio of all tracks, and the video of those that have a tile. */
  show(tracks: readonly SceneTrack[], tiles: readonly Tile[]): void {
    const sizes = new Map(tiles.map(({ trackId, rectangle }) => [trackId, rectangle]));
    this.#wanted = new Map();
    for (const track of tracks) {
      const tile = sizes.get(track.trackId) ?? null;
      if (track.kind === "video" ? tile !== null : this.#deps.hasAudio)
        this.#wanted.set(track.trackId, { track, tile });
      if (track.muted) this.#decoders.get(track.trackId)?.clear();
    }
    for (const [trackId, decoder] of this.#decoders) {
      const tile = this.#wanted.get(trackId)?.tile;
      if (tile) decoder.resize(tile);
      else {
        decoder.close();
        this.#decoders.delete(trackId);
      }
    }
    for (const trackId of this.#clocks.keys()) {
      if (tracks.some((track) => track.trackId === trackId)) continue;
      this.#clocks.delete(trackId);
      this.#deps.mixer.remove(trackId);
    }
    const present = new Set(tracks.map(({ identity }) => identity));
    for (const identity of this.#delays.keys()) if (!present.has(identity)) this.#delays.delete(identity);
    const media = this.#media;
    if (media) this.#connected?.then(() => media.subscribe(this.#subscribed())).catch(this.#deps.onError);
  }

  connect(): void {
    const { hasAudio, now, mixer, negotiate, update, onError } = this.#deps;
    const media = new MediaConnection({
      network: new SimulatedNetwork(),
      cipher: null,
      channels: 2,
      negotiate: ({ sdp, subscribe }) => negotiate(sdp, subscribe as SubscribedSection[]),
      update,
      onReport: (track, ntpMs, timestamp) => this.#clockOf(track).report(ntpMs, timestamp),
      onAudio: (track, { samples }, timestamp) => {
        if (!hasAudio || !this.#isWanted(track)) return;
        this.#hears ||= ![...this.#wanted.values()].some(({ tile }) => tile !== null);
        mixer.add(track.trackId, samples, this.#clockOf(track).at(timestamp, now()));
      },
      onVideo: (track, frame) => {
        const atMs = this.#clockOf(track).at(frame.timestamp, now());
        this.#decoderOf(track)?.add(frame, atMs);
      },
    });
    this.#media = media;
    this.#connected = media.connect(this.#subscribed());
    this.#connected.then(() => media.subscribe(this.#subscribed())).catch(onError);
  }

  disconnect(): void {
    this.#media?.close();
    this.#media = null;
    this.#connected = null;
    for (const decoder of this.#decoders.values()) decoder.close();
    this.#decoders.clear();
    this.#clocks.clear();
    this.#delays.clear();
  }

  /** Whether any audio or video has been decoded. */
  get hasMedia(): boolean {
    return [...this.#decoders.values()].some((decoder) => decoder.hasFrames) || this.#hears;
  }

  frameAt(trackId: string, atMs: number): Frame | null {
    return this.#decoders.get(trackId)?.frameAt(atMs) ?? null;
  }

  #isWanted({ trackId }: SubscribedTrack): boolean {
    return this.#media !== null && this.#wanted.has(trackId);
  }

  #subscribed(): SubscribedTrack[] {
    return [...this.#wanted.values()].map(({ track: { trackId, identity, kind }, tile }) => ({
      trackId,
      identity,
      kind,
      encrypted: false,
      ...(tile && { maxHeight: tile.height }),
    }));
  }

  #decoderOf({ trackId }: SubscribedTrack): VideoDecoder | null {
    const known = this.#decoders.get(trackId);
    const tile = this.#wanted.get(trackId)?.tile;
    if (known || !tile || !this.#media) return known ?? null;
    const decoder = new VideoDecoder(this.#deps.ffmpeg, tile, () => this.#media?.requestKeyframe(trackId));
    this.#decoders.set(trackId, decoder);
    return decoder;
  }

  #clockOf({ trackId, identity, kind }: SubscribedTrack): TrackClock {
    const known = this.#clocks.get(trackId);
    if (known) return known;
    const delay = this.#delays.get(identity) ?? new LeastDelay();
    this.#delays.set(identity, delay);
    const clock = new TrackClock(kind === "audio" ? AUDIO_CLOCK : VIDEO_CLOCK, delay);
    this.#clocks.set(trackId, clock);
    return clock;
  }
}
