import type { TrackKind } from "../../../protocol/room-records.ts";

export type MediaSection = {
  readonly mid: string;
  readonly kind: TrackKind;
  trackId: string | null;
  /** The section was answered as inactive or is new. Browsers fire `track` only when the direction changes. */
  isReady: boolean;
  wasUsed: boolean;
  /** The section had another track before this one. */
  isReused: boolean;
};

/** No accepted session description has more sections. */
const MAX_SECTIONS = 2_048;

export type WantedTrack = { trackId: string; kind: TrackKind };
type Missing = Record<TrackKind, number>;

/**
 * Assigns tracks to the sections of one peer connection. A freed section stays inactive for one answer and is then
 * assigned the next track of its kind.
 */
export class MediaSections {
  readonly #sections = new Map<string, MediaSection>();

  constructor(sections: readonly MediaSection[] = []) {
    for (const section of sections) this.#sections.set(section.mid, section);
  }

  all(): MediaSection[] {
    return [...this.#sections.values()];
  }

  of(trackId: string): MediaSection | undefined {
    return this.all().find((section) => section.trackId === trackId);
  }

  add(mid: string, kind: TrackKind): void {
    if (!this.#sections.has(mid) && this.#sections.size < MAX_SECTIONS)
      this.#sections.set(mid, { mid, kind, trackId: null, isReady: true, wasUsed: false, isReused: false });
  }

  differsFrom(wanted: readonly WantedTrack[]): boolean {
    const ids = new Set(wanted.map(({ trackId }) => trackId));
    return this.all().some(({ trackId }) => trackId !== null && !ids.has(trackId)) || this.#waiting(wanted).length > 0;
  }

  /** How many more sections are needed if freed ones are reused. */
  missing(wanted: readonly WantedTrack[]): Missing {
    const missing: Missing = { audio: 0, video: 0 };
    for (const { kind } of this.#waiting(wanted)) missing[kind] += 1;
    const ids = new Set(wanted.map(({ trackId }) => trackId));
    for (const { kind, trackId } of this.all()) if (trackId === null || !ids.has(trackId)) missing[kind] -= 1;
    return { audio: Math.max(0, missing.audio), video: Math.max(0, missing.video) };
  }

  /** Frees the sections of unwanted tracks and places wanted tracks on ready sections. */
  place(wanted: readonly WantedTrack[]): void {
    const ids = new Set(wanted.map(({ trackId }) => trackId));
    for (const section of this.all()) {
      if (section.trackId === null || ids.has(section.trackId)) continue;
      section.trackId = null;
      section.isReady = false;
    }
    for (const { trackId, kind } of this.#waiting(wanted)) {
      const section = this.all().find((free) => free.kind === kind && free.trackId === null && free.isReady);
      if (section) Object.assign(section, { trackId, isReused: section.wasUsed });
    }
  }

  /** The client or the server has answered the negotiation. */
  answered(): void {
    for (const section of this.all()) {
      if (section.trackId === null) section.isReady = true;
      else section.wasUsed = true;
    }
  }

  #waiting(wanted: readonly WantedTrack[]): WantedTrack[] {
    const placed = new Set(this.all().map(({ trackId }) => trackId));
    return wanted.filter(({ trackId }) => !placed.has(trackId));
  }
}
