import { type UpdateTrackSettings, VideoQuality } from "@livekit/protocol";
import type { Track } from "../../../protocol/room-records.ts";
import type { LayerChoice } from "../../../protocol/signaling.ts";
import type { RtcSession } from "../../signaling/session/rtc-session.ts";
import type { WantedTrack } from "../connections/seats.ts";

export type Viewing = { paused: boolean; maxHeight?: number; layer: LayerChoice; priority: number };

const AS_IT_COMES: Viewing = { paused: false, layer: "auto", priority: 0 };
const LAYERS: Partial<Record<VideoQuality, LayerChoice>> = {
  [VideoQuality.LOW]: "low",
  [VideoQuality.MEDIUM]: "medium",
};
const TALLEST = 8_640;
/** Nobody is shown more at once; what a client names beyond is not remembered. */
const MAX_CHOICES = 2_048;

/** What one client wants to receive, and how it shows it. */
export class Selection {
  readonly #session: RtcSession;
  readonly #automatic: boolean;
  /** Tracks for which the client has said otherwise than by default. */
  readonly #exceptions = new Set<string>();
  readonly #viewing = new Map<string, Viewing>();
  /** While the client settles: nothing else is wanted. */
  #only: ReadonlySet<string> | null = null;

  constructor(session: RtcSession, automatic: boolean) {
    this.#session = session;
    this.#automatic = automatic;
  }

  /** Of everybody else in the room, in the order they came. */
  wanted(): (WantedTrack & { track: Track; publisher: RtcSession })[] {
    const { room, permissions, waiting } = this.#session;
    if (!permissions.subscribe || waiting) return [];
    return [...room.sessions.values()].flatMap((publisher) =>
      publisher.identity === this.#session.identity
        ? []
        : [...publisher.tracks.values()]
            .filter(({ id }) => this.#exceptions.has(id) !== this.#automatic && (this.#only?.has(id) ?? true))
            .map((track) => ({ trackId: track.id, kind: track.kind, track, publisher })),
    );
  }

  /** Nothing of which the client has not heard by now is wanted before it is released. */
  hold(): void {
    const known = this.wanted().filter(({ publisher }) => publisher.announced);
    this.#only = new Set(known.map(({ trackId }) => trackId));
  }

  /** This was negotiated; what has found no place waits with what comes. */
  placed(trackIds: Iterable<string>): void {
    if (this.#only) this.#only = new Set(trackIds);
  }

  release(): void {
    this.#only = null;
  }

  subscribe(trackIds: readonly string[], wanted: boolean): void {
    for (const trackId of trackIds) {
      if (wanted === this.#automatic) this.#exceptions.delete(trackId);
      else if (this.#exceptions.size < MAX_CHOICES) this.#exceptions.add(trackId);
    }
  }

  view(trackIds: readonly string[], { disabled, quality, height, priority }: UpdateTrackSettings): void {
    for (const trackId of trackIds) {
      if (!this.#viewing.has(trackId) && this.#viewing.size >= MAX_CHOICES) continue;
      this.#viewing.set(trackId, {
        paused: disabled,
        // A size says more than a quality, which clients then leave at its default.
        layer: height > 0 ? "auto" : (LAYERS[quality] ?? "auto"),
        ...(height > 0 && { maxHeight: Math.min(height, TALLEST) }),
        // Of theirs 1 is served first; 0 is none.
        priority: priority === 0 ? 0 : Math.max(-100, Math.min(100, 100 - priority)),
      });
    }
  }

  viewingOf = (trackId: string): Viewing => this.#viewing.get(trackId) ?? AS_IT_COMES;

  forget(trackId: string): void {
    this.#exceptions.delete(trackId);
    this.#viewing.delete(trackId);
  }
}
