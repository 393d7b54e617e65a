// One track as a WebM file (VP8, VP9, AV1, Opus), written front to back. Sizes are unknown at first, so that the file plays even
// if the process dies; sizes and the index are written at the end into reserved space.

import { concat, type Span, spanOf, spansLength } from "../wire/frames/frame.ts";
import { opusHead } from "../wire/frames/opus-frames.ts";
import type { MediaFile, Patch, TrackFormat } from "./media-file.ts";

/** EBML (RFC 8794): with a size of all ones, an element continues until one of its parent's level begins or the file ends. */
const UNKNOWN_SIZE = Uint8Array.of(0x01, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff);

function idBytes(id: number): Uint8Array {
  if (id > 0xffffff) return Uint8Array.of(id >>> 24, id >>> 16, id >>> 8, id);
  if (id > 0xffff) return Uint8Array.of(id >>> 16, id >>> 8, id);
  return id > 0xff ? Uint8Array.of(id >>> 8, id) : Uint8Array.of(id);
}

/** The shortest form of a size, or eight bytes (`wide`) for a size that is filled in later. */
function sizeBytes(size: number, wide = false): Uint8Array {
  if (wide) {
    const out = new Uint8Array(8);
    new DataView(out.buffer).setBigUint64(0, BigInt(size) | (1n << 56n));
    return out;
  }
  if (size < 0x7f) return Uint8Array.of(0x80 | size);
  if (size < 0x3fff) return Uint8Array.of(0x40 | (size >>> 8), size);
  if (size < 0x1fffff) return Uint8Array.of(0x20 | (size >>> 16), size >>> 8, size);
  return Uint8Array.of(0x10 | (size >>> 24), size >>> 16, size >>> 8, size);
}

function element(id: number, content: Uint8Array): Uint8Array {
  return concat([idBytes(id), sizeBytes(content.length), content]);
}

function master(id: number, ...children: Uint8Array[]): Uint8Array {
  return element(id, concat(children));
}

/** Writes a number in at least `width` bytes. A placeholder has to be as long as the number that later replaces it. */
function unsigned(id: number, value: number, width = 1): Uint8Array {
  const bytes: number[] = [];
  for (let rest = value; rest > 0 || bytes.length < width; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return element(id, Uint8Array.from(bytes));
}

function float(id: number, value: number): Uint8Array {
  const out = new Uint8Array(8);
  new DataView(out.buffer).setFloat64(0, value);
  return element(id, out);
}

function text(id: number, value: string): Uint8Array {
  return element(id, new TextEncoder().encode(value));
}

/** Space of at least two bytes that can be overwritten later. */
function voidOf(length: number): Uint8Array {
  const out = new Uint8Array(length);
  out[0] = 0xec;
  if (length < 10) out[1] = 0x80 | (length - 2);
  else out.set(sizeBytes(length - 9, true), 1);
  return out;
}

const ID = {
  ebml: 0x1a45dfa3,
  segment: 0x18538067,
  seekHead: 0x114d9b74,
  info: 0x1549a966,
  tracks: 0x1654ae6b,
  cluster: 0x1f43b675,
  cues: 0x1c53bb6b,
} as const;
const CODEC_IDS = { vp8: "V_VP8", vp9: "V_VP9", av1: "V_AV1", opus: "A_OPUS" } as const;
const CLUSTER_HEAD_BYTES = 4 + UNKNOWN_SIZE.length;
/** Space for the three entries of the seek head. */
const SEEK_HEAD_BYTES = 96;
/** Block times are relative to their cluster, in 16 bits of milliseconds; players prefer shorter clusters. */
const CLUSTER_MS = 2_000;
const MAX_CLUSTER_MS = 30_000;
const BLOCK_HEAD_BYTES = 9;
/** One index entry per interval is enough for seeking, and keeps the index of an hour of audio small. */
const CUE_MS = 2_000;

export class WebmFile implements MediaFile {
  readonly mimeType: string;
  readonly #isVideo: boolean;
  readonly #infoAt: number;
  readonly #durationAt: number;
  readonly #tracksAt: number;
  readonly #segmentAt: number;
  readonly #seekHeadAt: number;
  readonly #header: Uint8Array;
  readonly #cues: { timeMs: number; position: number }[] = [];
  /** The offset of each cluster's content. */
  readonly #clusters: number[] = [];
  readonly #blockHead = spanOf(new Uint8Array(BLOCK_HEAD_BYTES));
  #position: number;
  #clusterMs = 0;
  #lastMs = -1;
  #endMs = 0;

  constructor(format: Exclude<TrackFormat, { codec: "h264" }>) {
    this.#isVideo = format.codec !== "opus";
    this.mimeType = `${this.#isVideo ? "video" : "audio"}/webm`;
    const ebml = master(
      ID.ebml,
      unsigned(0x4286, 1),
      unsigned(0x42f7, 1),
      unsigned(0x42f2, 4),
      unsigned(0x42f3, 8),
      text(0x4282, "webm"),
      unsigned(0x4287, 4),
      unsigned(0x4285, 2),
    );
    const segment = concat([idBytes(ID.segment), UNKNOWN_SIZE]);
    this.#segmentAt = ebml.length + segment.length;
    this.#seekHeadAt = this.#segmentAt;
    this.#infoAt = this.#seekHeadAt + SEEK_HEAD_BYTES;
    const beforeDuration = concat([unsigned(0x2ad7b1, 1_000_000), text(0x4d80, "stoa"), text(0x5741, "stoa")]);
    const info = master(ID.info, beforeDuration, float(0x4489, 0));
    this.#durationAt = this.#infoAt + info.length - 8;
    this.#tracksAt = this.#infoAt + info.length;
    const tracks = master(ID.tracks, trackEntry(format));
    this.#header = concat([ebml, segment, voidOf(SEEK_HEAD_BYTES), info, tracks]);
    this.#position = this.#header.length;
  }

  begin(): Uint8Array {
    return this.#header;
  }

  add(frame: readonly Span[], timeMs: number, durationMs: number, keyframe: boolean): Span[] {
    // Players drop frames whose time does not increase.
    const at = Math.max(Math.round(timeMs), this.#lastMs + 1);
    this.#lastMs = at;
    this.#endMs = Math.max(this.#endMs, at + durationMs);
    const cluster = this.#clusterDue(at, keyframe) ? this.#beginCluster(at, keyframe) : null;
    const length = spansLength(frame);
    const head = this.#blockHead;
    writeBlockHead(head.data, length, keyframe || !this.#isVideo, at - this.#clusterMs);
    this.#position += (cluster?.length ?? 0) + head.length + length;
    return cluster ? [spanOf(cluster), head, ...frame] : [head, ...frame];
  }

  #clusterDue(atMs: number, keyframe: boolean): boolean {
    const age = atMs - this.#clusterMs;
    return this.#clusters.length === 0 || age >= MAX_CLUSTER_MS || (age >= CLUSTER_MS && (keyframe || !this.#isVideo));
  }

  #beginCluster(atMs: number, keyframe: boolean): Uint8Array {
    const lastCueMs = this.#cues.at(-1)?.timeMs ?? Number.NEGATIVE_INFINITY;
    const position = this.#position - this.#segmentAt;
    if ((keyframe || !this.#isVideo) && atMs - lastCueMs >= CUE_MS) this.#cues.push({ timeMs: atMs, position });
    this.#clusterMs = atMs;
    this.#clusters.push(this.#position + CLUSTER_HEAD_BYTES);
    return concat([idBytes(ID.cluster), UNKNOWN_SIZE, unsigned(0xe7, atMs)]);
  }

  finish(lastsMs = 0): { tail: Uint8Array; patches: Patch[] } {
    const cuesAt = this.#position - this.#segmentAt;
    const tail = master(
      ID.cues,
      ...this.#cues.map(({ timeMs, position }) =>
        master(0xbb, unsigned(0xb3, timeMs), master(0xb7, unsigned(0xf7, 1), unsigned(0xf1, position))),
      ),
    );
    const duration = new Uint8Array(8);
    new DataView(duration.buffer).setFloat64(0, Math.max(this.#endMs, lastsMs));
    const seekHead = master(
      ID.seekHead,
      seek(ID.info, this.#infoAt - this.#segmentAt),
      seek(ID.tracks, this.#tracksAt - this.#segmentAt),
      seek(ID.cues, cuesAt),
    );
    const end = this.#position + tail.length;
    return {
      tail,
      patches: [
        { position: this.#segmentAt - 8, bytes: sizeBytes(end - this.#segmentAt, true) },
        { position: this.#seekHeadAt, bytes: concat([seekHead, voidOf(SEEK_HEAD_BYTES - seekHead.length)]) },
        { position: this.#durationAt, bytes: duration },
        ...this.#clusterSizes(),
      ],
    };
  }

  #clusterSizes(): Patch[] {
    return this.#clusters.map((start, i) => {
      const next = this.#clusters[i + 1];
      const end = next === undefined ? this.#position : next - CLUSTER_HEAD_BYTES;
      return { position: start - UNKNOWN_SIZE.length, bytes: sizeBytes(end - start, true) };
    });
  }
}

function seek(id: number, position: number): Uint8Array {
  return master(0x4dbb, element(0x53ab, idBytes(id)), unsigned(0x53ac, position, 8));
}

/** The header of a simple block of track 1: size in four bytes, relative time and keyframe flag. */
function writeBlockHead(head: Uint8Array, length: number, keyframe: boolean, relativeMs: number): void {
  const size = 4 + length;
  head[0] = 0xa3;
  head[1] = 0x10 | (size >>> 24);
  head[2] = size >>> 16;
  head[3] = size >>> 8;
  head[4] = size;
  head[5] = 0x81;
  head[6] = relativeMs >> 8;
  head[7] = relativeMs;
  head[8] = keyframe ? 0x80 : 0;
}

function trackEntry(format: Exclude<TrackFormat, { codec: "h264" }>): Uint8Array {
  const isVideo = format.codec !== "opus";
  const parts = [
    unsigned(0xd7, 1),
    unsigned(0x73c5, 1),
    unsigned(0x83, isVideo ? 1 : 2),
    unsigned(0x9c, 0),
    text(0x86, CODEC_IDS[format.codec]),
  ];
  if (format.codec === "opus") {
    parts.push(
      element(0x63a2, opusHead(format.channels)),
      unsigned(0x56bb, 80_000_000),
      master(0xe1, float(0xb5, 48_000), unsigned(0x9f, format.channels)),
    );
  } else {
    if (format.codec === "av1" && format.configuration) parts.push(element(0x63a2, format.configuration));
    parts.push(master(0xe0, unsigned(0xb0, format.width), unsigned(0xba, format.height)));
  }
  return master(0xae, ...parts);
}
