import type { TrackKind } from "../../../protocol/room-records.ts";

/** A receiving section of a connection, and the track on it. */
export type Seat = {
  readonly mid: string;
  readonly kind: TrackKind;
  trackId: string | null;
  /** It was answered inactive, or never: browsers announce a track only where the direction changes. */
  clean: boolean;
  used: boolean;
  /** The track on it is not its first; said when it is seated, and true of it for as long as it stays. */
  isReused: boolean;
};

/** No description that is accepted has more sections. */
const MAX_SEATS = 2_048;

export type WantedTrack = { trackId: string; kind: TrackKind };
export type Missing = Record<TrackKind, number>;

/**
 * Which track arrives on which section of one connection. People come and go on the same sections: one that was freed
 * rests for an answer, and then takes the next track of its kind.
 */
export class Seats {
  readonly #seats = new Map<string, Seat>();

  all(): Seat[] {
    return [...this.#seats.values()];
  }

  of(trackId: string): Seat | undefined {
    return this.all().find((seat) => seat.trackId === trackId);
  }

  add(mid: string, kind: TrackKind): void {
    if (!this.#seats.has(mid) && this.#seats.size < MAX_SEATS)
      this.#seats.set(mid, { mid, kind, trackId: null, clean: true, used: false, isReused: false });
  }

  /** Another peer connection: its sections are others. */
  clear(): void {
    this.#seats.clear();
  }

  /** Something on the sections is not as it is wanted, so that a negotiation has something to change. */
  differsFrom(wanted: readonly WantedTrack[]): boolean {
    const ids = new Set(wanted.map(({ trackId }) => trackId));
    return this.all().some(({ trackId }) => trackId !== null && !ids.has(trackId)) || this.#waiting(wanted).length > 0;
  }

  /** How many sections more it takes, those that rest counted as there. */
  missing(wanted: readonly WantedTrack[]): Missing {
    const missing: Missing = { audio: 0, video: 0 };
    for (const { kind } of this.#waiting(wanted)) missing[kind] += 1;
    const ids = new Set(wanted.map(({ trackId }) => trackId));
    for (const { kind, trackId } of this.all()) if (trackId === null || !ids.has(trackId)) missing[kind] -= 1;
    return { audio: Math.max(0, missing.audio), video: Math.max(0, missing.video) };
  }

  /** Frees what is not wanted any more, and seats what is on sections that have rested. */
  place(wanted: readonly WantedTrack[]): void {
    const ids = new Set(wanted.map(({ trackId }) => trackId));
    for (const seat of this.all()) {
      if (seat.trackId === null || ids.has(seat.trackId)) continue;
      seat.trackId = null;
      seat.clean = false;
    }
    for (const { trackId, kind } of this.#waiting(wanted)) {
      const seat = this.all().find((free) => free.kind === kind && free.trackId === null && free.clean);
      if (seat) Object.assign(seat, { trackId, isReused: seat.used });
    }
  }

  /** What was placed has been answered. */
  answered(): void {
    for (const seat of this.all()) {
      if (seat.trackId === null) seat.clean = true;
      else seat.used = true;
    }
  }

  #waiting(wanted: readonly WantedTrack[]): WantedTrack[] {
    const seated = new Set(this.all().map(({ trackId }) => trackId));
    return wanted.filter(({ trackId }) => !seated.has(trackId));
  }
}
