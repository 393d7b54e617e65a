import { appendFile, mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import type { RecordedPart } from "../../../protocol/media/recording.ts";
import { mediaPlaylist, type RenditionInfo, type Segment } from "./playlist.ts";

/** Segments whose parts are kept in memory: whoever watches at the edge costs no disk. */
const IN_MEMORY = 11;
/** A segment ends with the next picture that stands for itself; of a host who sends none, after a minute or so. */
const MOST_PARTS = 120;
/** A host who begins another track every few seconds does so for an hour. */
const MOST_HEADS = 1_000;

/** As blobs, which all answers share: of an array each would hold a copy until its reader has taken it. */
type StoredPart = { durationMs: number; independent: boolean; bytes: Blob };
type StoredSegment = Omit<Segment, "parts"> & {
  parts: StoredPart[];
  /** Made for the first who asks; it goes with the parts. */
  whole: Blob | null;
  position: number;
  length: number;
};

/** The pictures, or the sound, of a live stream: every segment since it began, on disk, and the newest in memory as well. */
export class Rendition {
  readonly name: "video" | "audio";
  readonly segments: StoredSegment[] = [];
  readonly #path: string;
  readonly #heads: Blob[] = [];
  readonly #onError: (error: Error) => void;
  #info: Omit<RenditionInfo, "bitsPerSecond"> = { codecs: "", width: null, height: null };
  #position = 0;
  #written: Promise<void>;
  #waiting: (() => void)[] = [];
  /** As it is now: of a stream of hours the list is long, and everybody asks for the same. */
  #playlists: { whole?: string; delta?: string } = {};
  ended = false;

  constructor(name: "video" | "audio", path: string, onError: (error: Error) => void) {
    this.name = name;
    this.#path = path;
    this.#onError = onError;
    this.#written = mkdir(dirname(path), { recursive: true, mode: 0o700 }).then(() => {}, onError);
  }

  get info(): RenditionInfo {
    const seconds = this.segments.reduce((total, { durationMs }) => total + durationMs, 0) / 1_000;
    return { ...this.#info, bitsPerSecond: seconds > 0 ? (this.#position * 8) / seconds : 0 };
  }

  /** Whether another track may follow. */
  get takesTracks(): boolean {
    return this.#heads.length < MOST_HEADS;
  }

  head(index: number): Blob | undefined {
    return this.#heads[index];
  }

  /** `head`: of the track that the part is of, when it is another than that of the part before. */
  add(part: RecordedPart, head: Uint8Array<ArrayBuffer> | null): void {
    if (head) {
      this.#heads.push(new Blob([head]));
      const { codecs, width, height } = part;
      this.#info = { codecs, width, height };
    }
    const last = this.segments.at(-1);
    if (head && last) last.complete = true;
    const bytes = Uint8Array.fromBase64(part.data);
    const { durationMs, independent } = part;
    const segment = last && !last.complete ? last : this.#begin(part.atMs, head !== null);
    segment.parts.push({ durationMs, independent, bytes: new Blob([bytes]) });
    segment.durationMs += durationMs;
    segment.length += bytes.length;
    segment.complete = part.endsSegment || segment.parts.length >= MOST_PARTS;
    this.#position += bytes.length;
    this.#written = this.#written.then(() => appendFile(this.#path, bytes, { mode: 0o600 })).catch(this.#onError);
    this.#wake();
  }

  /** Nothing more comes: what is there is all there is. */
  end(): void {
    const last = this.segments.at(-1);
    if (last) last.complete = true;
    this.ended = true;
    this.#wake();
  }

  playlist(startedAt: number, skip: boolean): string {
    const { name, segments, ended } = this;
    const which = skip ? "delta" : "whole";
    const made = this.#playlists[which] ?? mediaPlaylist({ name, segments, startedAt, ended, skip });
    this.#playlists[which] = made;
    return made;
  }

  /** The bytes of a segment, or of one of its parts; null when there is no such thing. */
  async read(index: number, part?: number): Promise<Blob | null> {
    const segment = this.segments[index];
    if (!segment || (part === undefined && !segment.complete)) return null;
    if (part !== undefined) return segment.parts[part]?.bytes ?? null;
    const { parts, position, length } = segment;
    if (parts.length > 0) {
      segment.whole ??= new Blob(parts.map(({ bytes }) => bytes));
      return segment.whole;
    }
    await this.#written;
    return Bun.file(this.#path).slice(position, position + length);
  }

  /** Whether the part is there; one of a segment that is complete is as much there as the whole of it. */
  has(index: number, part = 0): boolean {
    const segment = this.segments[index];
    return (
      this.segments.length > index + 1 || (segment !== undefined && (segment.complete || segment.parts.length > part))
    );
  }

  /** Resolves with the next change, or when `giveUp` does. */
  changed(giveUp: Promise<void>): Promise<void> {
    return Promise.race([giveUp, new Promise<void>((resolve) => this.#waiting.push(resolve))]);
  }

  /** Resolves when everything is on disk. */
  settled(): Promise<void> {
    return this.#written;
  }

  #begin(atMs: number, isOther: boolean): StoredSegment {
    const segment: StoredSegment = {
      ...{ atMs, durationMs: 0, head: this.#heads.length - 1, complete: false },
      ...{ discontinuity: isOther && this.segments.length > 0, parts: [], whole: null, position: this.#position },
      length: 0,
    };
    this.segments.push(segment);
    const old = this.segments.at(-1 - IN_MEMORY);
    if (old) {
      old.parts = [];
      old.whole = null;
    }
    return segment;
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#playlists = {};
    for (const resolve of waiting) resolve();
  }
}
