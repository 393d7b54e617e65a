import { appendFile, mkdir } from "node:fs/promises";
import { dirname } from "node:path";
import type { RecordedPart } from "../../../protocol/media/recording.ts";
import { mediaPlaylist, type RenditionInfo, type Segment } from "./playlist.ts";

/** Segments whose partial segments stay in memory: players at the live edge cause no disk reads. */
const IN_MEMORY = 11;
/** A segment ends before the next keyframe; without keyframes, after about a minute. */
const MAX_PARTS = 120;
/** Enough for an hour of a host that begins another track every few seconds. */
const MAX_HEADS = 1_000;

/** Blobs are shared by all responses; with arrays, each response would keep its own copy until it is sent. */
type StoredPart = { durationMs: number; independent: boolean; bytes: Blob };
type StoredSegment = Omit<Segment, "parts"> & {
  parts: StoredPart[];
  /** Created on the first request, and released together with the partial segments. */
  whole: Blob | null;
  position: number;
  length: number;
};

type KeptPart = Omit<StoredPart, "bytes"> & { length: number };

export type RenditionState = {
  heads: string[];
  segments: (Omit<StoredSegment, "parts" | "whole"> & { parts: KeptPart[] })[];
  info: Omit<RenditionInfo, "bitsPerSecond">;
  position: number;
};

/** The video or audio of a live stream: all segments on disk, the newest in memory too. */
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
  /** Cached, because the playlist of a long stream is large and all players request the same one. */
  #playlists: { whole?: string; delta?: string } = {};
  ended = false;
  /** The next process of this server continues the stream. */
  isHandedOver = false;

  /** `nextAt` returns the path of a new segment's files, relative to the playlist. */
  constructor(
    name: "video" | "audio",
    path: string,
    onError: (error: Error) => void,
    private readonly nextAt: () => string = () => "",
  ) {
    this.name = name;
    this.#path = path;
    this.#onError = onError;
    this.#written = mkdir(dirname(path), { recursive: true, mode: 0o700 }).then(() => {}, onError);
  }

  /**
   * The state for the next process of this server, which uses the same file and, with `continues`, adds to its last segment.
   * Nothing may be added here afterwards.
   */
  async state(continues: boolean): Promise<RenditionState> {
    await this.#written;
    const heads = await Promise.all(this.#heads.map(async (head) => (await head.bytes()).toBase64()));
    const segments = this.segments.map(({ whole, ...segment }) => ({
      ...segment,
      complete: segment.complete || !continues,
      parts: segment.parts.map(({ bytes, ...part }) => ({ ...part, length: bytes.size })),
    }));
    return { heads, segments, info: this.#info, position: this.#position };
  }

  /** Continues where an earlier process ended. */
  async resume({ heads, segments, info, position }: RenditionState): Promise<void> {
    this.#heads.push(...heads.map((head) => new Blob([Uint8Array.fromBase64(head)])));
    for (const segment of segments) {
      let at = segment.position;
      const parts: StoredPart[] = [];
      for (const { length, ...part } of segment.parts) {
        parts.push({
          ...part,
          bytes: new Blob([
            await Bun.file(this.#path)
              .slice(at, at + length)
              .bytes(),
          ]),
        });
        at += length;
      }
      this.segments.push({ ...segment, parts, whole: null });
    }
    this.#info = info;
    this.#position = position;
  }

  get info(): RenditionInfo {
    const seconds = this.segments.reduce((total, { durationMs }) => total + durationMs, 0) / 1_000;
    return { ...this.#info, bitsPerSecond: seconds > 0 ? (this.#position * 8) / seconds : 0 };
  }

  /** Whether the rendition accepts another track. */
  get takesTracks(): boolean {
    return this.#heads.length < MAX_HEADS;
  }

  head(index: number): Blob | undefined {
    return this.#heads[index];
  }

  /** `head` is the initialization segment of the partial segment's track, if the track has changed. */
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
    segment.complete = part.endsSegment || segment.parts.length >= MAX_PARTS;
    this.#position += bytes.length;
    this.#written = this.#written.then(() => appendFile(this.#path, bytes, { mode: 0o600 })).catch(this.#onError);
    this.#notify();
  }

  end(): void {
    const last = this.segments.at(-1);
    if (last) last.complete = true;
    this.ended = true;
    this.#notify();
  }

  handOver(): void {
    this.isHandedOver = true;
    this.#notify();
  }

  playlist(startedAt: number, skip: boolean): string {
    const { name, segments, ended } = this;
    const which = skip ? "delta" : "whole";
    const made =
      this.#playlists[which] ?? mediaPlaylist({ name, nextAt: this.nextAt(), segments, startedAt, ended, skip });
    this.#playlists[which] = made;
    return made;
  }

  /** The bytes of a segment, or of one of its partial segments; null when it does not exist. */
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

  /** Whether the partial segment exists. A complete segment counts as having all of them. */
  has(index: number, part = 0): boolean {
    const segment = this.segments[index];
    return (
      this.segments.length > index + 1 || (segment !== undefined && (segment.complete || segment.parts.length > part))
    );
  }

  /** Resolves with the next change, or when `cancelled` does. */
  changed(cancelled: Promise<void>): Promise<void> {
    return Promise.race([cancelled, new Promise<void>((resolve) => this.#waiting.push(resolve))]);
  }

  /** Resolves when everything is on disk. */
  settled(): Promise<void> {
    return this.#written;
  }

  #begin(atMs: number, isOtherTrack: boolean): StoredSegment {
    const segment: StoredSegment = {
      atMs,
      durationMs: 0,
      head: this.#heads.length - 1,
      complete: false,
      at: this.nextAt(),
      discontinuity: isOtherTrack && this.segments.length > 0,
      parts: [],
      whole: null,
      position: this.#position,
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

  #notify(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    this.#playlists = {};
    for (const resolve of waiting) resolve();
  }
}
