import { type UpdateTrackSettings, VideoQuality } from "@livekit/protocol";
import type { Track } from "../../protocol/room-records.ts";
import type { LayerChoice } from "../../protocol/signaling.ts";
import { mayReceive, type RtcSession } from "../signaling/rtc-session.ts";
import type { WantedTrack } from "./negotiation/media-sections.ts";

type TrackSettings = { paused: boolean; maxHeight?: number; maxFps?: number; layer: LayerChoice; priority: number };

const DEFAULT_SETTINGS: TrackSettings = { paused: false, layer: "auto", priority: 0 };
const LAYERS: Partial<Record<VideoQuality, LayerChoice>> = {
  [VideoQuality.LOW]: "low",
  [VideoQuality.MEDIUM]: "medium",
};
const MAX_HEIGHT = 8_640;
const MAX_FPS = 240;
/** No client shows more tracks at the same time; further choices are ignored. */
const MAX_CHOICES = 2_048;

export type SelectionState = { exceptions: string[]; settings: [trackId: string, settings: TrackSettings][] };

export class TrackSelection {
  /** The tracks for which the client has chosen the opposite of its default. */
  readonly #exceptions = new Set<string>();
  readonly #settings = new Map<string, TrackSettings>();
  /** While changes are deferred, only these tracks are wanted. */
  #only: ReadonlySet<string> | null = null;

  constructor(
    private readonly session: RtcSession,
    private readonly automatic: boolean,
    before: SelectionState = { exceptions: [], settings: [] },
  ) {
    for (const trackId of before.exceptions) this.#exceptions.add(trackId);
    for (const [trackId, settings] of before.settings) this.#settings.set(trackId, settings);
  }

  state(): SelectionState {
    return { exceptions: [...this.#exceptions], settings: [...this.#settings] };
  }

  /** The wanted tracks of all other participants, in the order in which they joined. */
  wanted(): (WantedTrack & { track: Track; publisher: RtcSession })[] {
    const { room, permissions, waiting } = this.session;
    if (!permissions.subscribe || waiting) return [];
    return [...room.sessions.values()].flatMap((publisher) =>
      publisher.identity === this.session.identity
        ? []
        : [...publisher.tracks.values()]
            .filter(({ id }) => this.#exceptions.has(id) !== this.automatic && (this.#only?.has(id) ?? true))
            .filter(({ id }) => mayReceive(this.session, id, publisher))
            .map((track) => ({ trackId: track.id, kind: track.kind, track, publisher })),
    );
  }

  /** Until `release` only tracks are wanted that the client already knows. */
  hold(): void {
    const known = this.wanted().filter(({ publisher }) => publisher.announced);
    this.#only = new Set(known.map(({ trackId }) => trackId));
  }

  /** These tracks have a section; the others wait until `release`. */
  limitTo(trackIds: Iterable<string>): void {
    if (this.#only) this.#only = new Set(trackIds);
  }

  release(): void {
    this.#only = null;
  }

  subscribe(trackIds: readonly string[], wanted: boolean): void {
    for (const trackId of trackIds) {
      if (wanted === this.automatic) this.#exceptions.delete(trackId);
      else if (this.#exceptions.size < MAX_CHOICES) this.#exceptions.add(trackId);
    }
  }

  updateSettings(trackIds: readonly string[], { disabled, quality, height, fps, priority }: UpdateTrackSettings): void {
    for (const trackId of trackIds) {
      if (!this.#settings.has(trackId) && this.#settings.size >= MAX_CHOICES) continue;
      this.#settings.set(trackId, {
        paused: disabled,
        // A client that sends a size leaves the quality at its default.
        layer: height > 0 ? "auto" : (LAYERS[quality] ?? "auto"),
        ...(height > 0 && { maxHeight: Math.min(height, MAX_HEIGHT) }),
        // A client that lifts its bound sends 0.
        ...((fps > 0 || this.#settings.get(trackId)?.maxFps) && { maxFps: Math.min(fps || MAX_FPS, MAX_FPS) }),
        // LiveKit's highest priority is 1, and 0 means none.
        priority: priority === 0 ? 0 : Math.max(-100, Math.min(100, 100 - priority)),
      });
    }
  }

  settingsOf = (trackId: string): TrackSettings => this.#settings.get(trackId) ?? DEFAULT_SETTINGS;

  remove(trackId: string): void {
    this.#exceptions.delete(trackId);
    this.#settings.delete(trackId);
  }
}
